/* SPDX-License-Identifier: MIT
 *
 * --list, --verify, ldd's way of asking, LD_TRACE_LOADED_OBJECTS with -r, LD_SHOW_AUXV's
 * names: what tools read of a loader.  Addresses are made equal before the comparison.
 *
 * covers: elf/neededtest* elf/tst-unused-dep elf/tst-trace?
 * build: libinner.so -DINNER
 * build: libouter.so -DOUTER libinner.so
 * build: libunused.so -DUNUSED
 * build: program libouter.so -Wl,--no-as-needed libunused.so
 * run: direct --list
 * run: direct --verify
 * run: LD_TRACE_LOADED_OBJECTS=1
 * run: LD_TRACE_LOADED_OBJECTS=1 LD_BIND_NOW=1 LD_WARN=1
 * run: LD_TRACE_LOADED_OBJECTS=1 LD_DEBUG=unused
 * run: LD_PRELOAD=$D/libinner.so direct --list
 * run: program=libouter.so direct --list
 * run: LD_LIBRARY_PATH= LD_TRACE_LOADED_OBJECTS=1
 */
#if defined INNER
int inner(void);
int inner(void)
{
    return 1;
}
#elif defined OUTER
int inner(void);
int outer(void);
int outer(void)
{
    return inner();
}
#elif defined UNUSED
int unused(void);
int unused(void)
{
    return 0;
}
#else
int outer(void);
int main(void)
{
    return outer();
}
#endif
