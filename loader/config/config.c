/* SPDX-License-Identifier: MIT */
#include "loader/config/config.h"
#include "rimf/base/base.h"

#include <errno.h>

/* The XDG rules: a path that is not absolute counts as unset. */
static const char *absolute(const char *value)
{
    return value && value[0] == '/' ? value : NULL;
}

void config_environment(const struct pipeline_query *query, struct config_environment *out)
{
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {
        {"HOME=", offsetof(struct config_environment, home)},
        {"XDG_CONFIG_HOME=", offsetof(struct config_environment, xdg_config_home)},
        {"MVLD_CONFIG=", offsetof(struct config_environment, config)},
        {"MVLD_TUNABLES=", offsetof(struct config_environment, tunables)},
        {"MVLD_PASS_PATH=", offsetof(struct config_environment, pass_path)},
    };

    *out = (struct config_environment){0};
    if (query->secure || !query->envp)
        return;
    for (char **e = query->envp; *e; e++) {
        if (**e != 'H' && **e != 'X' && **e != 'M')
            continue;
        for (size_t i = 0; i < RIMF_COUNT(known); i++) {
            const char *value = rimf_after(*e, known[i].name);
            const char **to = (const char **)((char *)out + known[i].offset);
            if (value && *value && !*to) /* like getenv: the first one wins */
                *to = value;
        }
    }
    out->home = absolute(out->home);
    out->xdg_config_home = absolute(out->xdg_config_home);
}

size_t config_user_folder(char *to, size_t size, const struct config_environment *env,
                          const char *more)
{
    size_t n = env->xdg_config_home
                   ? rimf_format(to, size, "%s/mvld%s", env->xdg_config_home, more)
               : env->home ? rimf_format(to, size, "%s/.config/mvld%s", env->home, more)
                           : 0;

    return n < size ? n : 0;
}

int config_read(const struct pipeline_query *query, const struct config_environment *env,
                struct rimf_heap *heap, struct config *out, const struct why *why)
{
    int error;

    *out = (struct config){.file = CONFIG_TUNABLES};
    error = config_each_file(query, env, heap, out, why);
    if (!error && env->tunables)
        error = config_tunables(heap, env->tunables, out, why);
    if (error)
        return error;
    return out->match || config_find(out, "app", "passes");
}
