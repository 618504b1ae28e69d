/* SPDX-License-Identifier: MIT
 *
 * main PLUGIN [STRAY]: opens the plugin and calls into it; with a second argument
 * the plugin writes behind a block.
 */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    void *plugin = dlopen(argv[1], RTLD_NOW);
    int (*in_plugin)(int) = plugin ? dlsym(plugin, "in_plugin") : NULL;

    if (!in_plugin)
        return 3;
    printf("%d\n", in_plugin(argc - 1));
    return 0;
}
