/* SPDX-License-Identifier: MIT
 *
 * truth PID LOG: is the moved code of a process what it must be?  Zydis decodes the file's
 * bytes and the moved ones in step, for each proven function of each object that the log says
 * to have moved.  A failure means that moved code does something else than the original, that
 * an address is not the canonical one, or that nobody can unwind through it.
 */
#include "../../rimf/moved/moved.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    struct process p;

    CHECK(argc == 3, "(PID LOG)");
    process_open(&p, argv[1], argv[2]);
    for (size_t i = 0; i < p.n; i++) {
        check_code(&p, &p.objects[i]);
        check_original(&p, &p.objects[i]);
        check_pointers(&p, &p.objects[i]);
    }
    check_unwinding(&p);
    printf("%zu objects in %zu fragments, %zu instructions: %zu operands, %zu branches, %zu calls through slots, "
           "%zu direct ones, %zu of them to moved code; %zu jump tables, %zu jumps of originals, "
           "%zu frames; %zu functions have the address that they moved to, %zu pointers; of unbound slots "
           "%zu, %zu to objects that stay; %zu fall through; %zu wrong\n",
           p.n, p.n_places, p.n_instructions, p.n_operands, p.n_branches, p.n_through, p.n_direct,
           p.n_across, p.n_tables, p.n_entries, p.n_frames, p.n_moved, p.n_pointers, p.n_foreseen,
           p.n_elsewhere, p.n_falls, p.n_wrong);
    for (size_t i = 0; i < p.n; i++) /* a system may have analyses of an older mvld */
        CHECK(p.objects[i].moved || getenv("MVLD_TEST_ANALYSES") ||
                  access(ANALYSIS_SYSTEM_FOLDER, F_OK) == 0,
              "(%s: addresses lead to the originals)", p.objects[i].path);
    return p.n_wrong != 0;
}
