/* SPDX-License-Identifier: MIT
 *
 * points.S: a program with multiverse descriptors, written by hand, for the
 * tests of the tools: two switches, two variation points, four call sites.
 *
 *     __attribute__((multiverse)) unsigned char fast;
 *     __attribute__((multiverse("tracked"))) int level;
 *     __attribute__((multiverse)) int step(void);       // fast = 0, fast = 1
 *     __attribute__((multiverse)) int depth(void);      // level in -2..3
 *     __attribute__((multiverse)) int (*hook)(void);
 *     int main(void) { step(); step(); depth(); outside(); hook(); }
 *
 * `outside` is weak and has no definition: another object's variation point.
 */
        .macro  RECORD begin, end
        .long   \end - \begin
        .endm

/* ---- code ---- */
        .text
        .p2align 4
        .globl  step
        .type   step, @function
step:
.Lstep:
        endbr64
        .p2align 3
.Lstep_pad:
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00    # nopl 0(%rax,%rax,1)
        movq    fast@GOTPCREL(%rip), %rax
        movzbl  (%rax), %eax
        ret
        .size   step, . - step
        .p2align 4
        .globl  depth
        .type   depth, @function
depth:
.Ldepth_pad:
        .byte   0x0f, 0x1f, 0x44, 0x00, 0x00    # nopl 0(%rax,%rax,1)
        movq    level@GOTPCREL(%rip), %rax
        movl    (%rax), %eax
        ret
        .size   depth, . - depth
        .p2align 4
.Lhook_stub:
        movq    hook@GOTPCREL(%rip), %rax
        jmp     *(%rax)
        .p2align 4
.Lstep_0:
        xorl    %eax, %eax
        ret
.Lstep_0_end:
        .p2align 4
.Lstep_1:
        movl    $1, %eax
        ret
.Lstep_1_end:
        .p2align 4
.Ldepth_small:
        movl    $2, %eax
        ret
.Ldepth_small_end:

        .p2align 4
        .globl  main
        .type   main, @function
main:
        subq    $8, %rsp                        # 4 bytes: sites at 8n, 8n, 8n+5 ...
        .p2align 3
.Lsite_0:
        call    step@PLT
        .p2align 3
.Lsite_1:
        call    *step@GOTPCREL(%rip)
        .p2align 3
        .skip   5, 0x90
.Lsite_2:
        call    depth@PLT                       # across two 8-byte words
        .p2align 3
        jmp     .Lno_outside
.Lsite_3:
        call    outside@PLT
.Lno_outside:
        .p2align 3
.Lsite_4:
        call    .Lhook_stub
        xorl    %eax, %eax
        addq    $8, %rsp
        ret
        .size   main, . - main
        .weak   outside

/* ---- data ---- */
        .data
        .globl  fast, level, hook
        .type   fast, @object
        .type   level, @object
        .type   hook, @object
        .size   fast, 1
        .size   level, 4
        .size   hook, 8
        .p2align 3
hook:   .quad   step
level:  .long   -1
fast:   .byte   1

/* ---- descriptors ---- */
        .section multiverse_switches, "a", @progbits
        .p2align 3
1:      RECORD  1b, 2f
        .byte   1, 4                            # width, DEFINED
        .short  3f - 1b
        .long   fast@GOTPCREL
        .long   0
3:      .asciz  "fast"
        .p2align 3
2:
1:      RECORD  1b, 2f
        .byte   4, 1 | 2 | 4                    # width, SIGNED | TRACKED | DEFINED
        .short  3f - 1b
        .long   level@GOTPCREL
        .long   0
3:      .asciz  "level"
        .p2align 3
2:
1:      RECORD  1b, 2f                          # as a unit that only uses it would say
        .byte   4, 1 | 2
        .short  3f - 1b
        .long   level@GOTPCREL
        .long   0
3:      .asciz  "level"
        .p2align 3
2:

        .section multiverse_functions, "a", @progbits
        .p2align 3
1:      RECORD  1b, 2f
        .short  0, 3f - 1b                      # flags, name
        .short  2, 2                            # variants, guards
        .long   .Lstep - .
        .long   .Lstep_pad - .
        .long   0
        .long   .Lstep_0 - ., .Lstep_0_end - .Lstep_0
        .short  0, 1, 4f - 1b, 0
        .long   .Lstep_1 - ., .Lstep_1_end - .Lstep_1
        .short  1, 1, 5f - 1b, 0
        .long   fast@GOTPCREL
        .byte   1, 0, 0, 0
        .quad   0, 0
        .long   fast@GOTPCREL
        .byte   1, 0, 0, 0
        .quad   1, 1
3:      .asciz  "step"
4:      .asciz  "step.fast=0"
5:      .asciz  "step.fast=1"
        .p2align 3
2:
1:      RECORD  1b, 2f
        .short  0, 3f - 1b
        .short  1, 1
        .long   .Ldepth_pad - .
        .long   .Ldepth_pad - .
        .long   0
        .long   .Ldepth_small - ., 0
        .short  0, 1, 0, 0
        .long   level@GOTPCREL
        .byte   4, 1 | 2, 0, 0
        .quad   -2, 3
3:      .asciz  "depth"
        .p2align 3
2:
1:      RECORD  1b, 2f
        .short  1, 3f - 1b                      # a function pointer
        .short  0, 0
        .long   .Lhook_stub - .
        .long   0
        .long   hook@GOTPCREL
3:      .asciz  "hook"
        .p2align 3
2:

        .section multiverse_callsites, "a", @progbits
        .p2align 2
        .long   .Lsite_0 - .
        .long   step@GOTPCREL
        .long   .Lsite_1 - .
        .long   step@GOTPCREL
        .long   .Lsite_2 - .
        .long   depth@GOTPCREL
        .long   .Lsite_3 - .
        .long   outside@GOTPCREL
        .long   .Lsite_4 - .
        .long   .Lhook_stub@GOTPCREL

        .section .note.multiverse, "a", @note
        .p2align 2
        .long   11, 28, 1
        .asciz  "Multiverse"
        .p2align 2
        .long   1
        .long   __start_multiverse_functions - .
        .long   __stop_multiverse_functions - .
        .long   __start_multiverse_callsites - .
        .long   __stop_multiverse_callsites - .
        .long   __start_multiverse_switches - .
        .long   __stop_multiverse_switches - .
        .hidden __start_multiverse_functions, __stop_multiverse_functions
        .hidden __start_multiverse_callsites, __stop_multiverse_callsites
        .hidden __start_multiverse_switches, __stop_multiverse_switches

        .section .note.GNU-stack, "", @progbits
