// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs.c: /sys/kernel/debug/multiverse, for root.
 *
 *	# cat control				switches, functions, damaged descriptors
 *	# echo 'SWITCH=NUMBER' > control	writes the switch and commits what depends on it
 *	# echo commit > control			or revert: everything
 *	# cat functions				each function's variants and calls, what was refused and why
 */
#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "kernel/linux/glue.h"

/* Called under mvl_lock.  Shows names instead of addresses, which kptr_restrict may hide. */
static void show_line(void *file, const char *text)
{
	seq_printf(file, "%s\n", mvl_named(text));
}

static int show(struct seq_file *file, void *unused)
{
	int err;

	mvl_lock();
	err = mvk_dump(show_line, file);
	mvl_unlock();
	return err;
}

static void show_place(void *file, uintptr_t at, const char *text)
{
	if (at)
		seq_printf(file, "\t%pS: ", (void *)at);
	show_line(file, text);
}

static int functions_show(struct seq_file *file, void *unused)
{
	int err;

	mvl_lock();
	err = mvk_list(show_place, file);
	mvl_unlock();
	return err;
}
DEFINE_SHOW_ATTRIBUTE(functions);

static int open(struct inode *inode, struct file *file)
{
	return single_open(file, show, NULL);
}

static int refuse(int err, const char *what, const char *why)
{
	pr_warn("multiverse: %s: %s\n", what, why);
	return err;
}

static int set(char *name, const char *number)
{
	long long value;
	void *variable;
	const char *reserved;
	int err = kstrtoll(number, 0, &value);

	if (err)
		return refuse(err, number, err == -ERANGE ? "it is no number of 64 bits" : "it is no number");
	err = mvk_find(name, &variable);
	if (err)
		return mvl_tell(name, err);
	reserved = mvl_reserved(variable);
	if (reserved)
		return refuse(-EPERM, name, reserved);
	return mvl_tell(name, mvk_set(variable, value));
}

/* Called under mvl_lock.  Returns negative errno if it failed. */
static int command(char *text)
{
	char *number = strchr(text, '=');

	if (!strcmp(text, "commit"))
		return mvl_tell(text, mvk_apply(MV_COMMIT, MV_ALL, NULL));
	if (!strcmp(text, "revert"))
		return mvl_tell(text, mvk_apply(MV_REVERT, MV_ALL, NULL));
	if (!number)
		return refuse(-EINVAL, text, "it is neither SWITCH=NUMBER nor commit nor revert");
	*number++ = 0;
	return set(strim(text), strim(number));
}

static ssize_t write(struct file *file, const char __user *from, size_t n, loff_t *at)
{
	char *text;
	int err;

	if (n > 4096)
		return -E2BIG;
	text = memdup_user_nul(from, n);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mvl_lock();
	err = strlen(text) == n ? command(strim(text)) : refuse(-EINVAL, text, "a byte with the value 0 follows");
	mvl_unlock();
	kfree(text);
	return err < 0 ? err : n;
}

static const struct file_operations operations = {
	.open = open,
	.read = seq_read,
	.llseek = seq_lseek,
	.release = single_release,
	.write = write,
};

static int __init start(void)
{
	struct dentry *folder = debugfs_create_dir("multiverse", NULL);

	debugfs_create_file("control", 0600, folder, NULL, &operations);
	debugfs_create_file("functions", 0400, folder, NULL, &functions_fops);
	return 0;
}
late_initcall(start);
