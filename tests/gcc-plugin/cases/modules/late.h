// SPDX-License-Identifier: MIT
__attribute__((multiverse)) extern bool on;
__attribute__((multiverse("inline"))) inline int shared(int x) { return on ? x * 10 : x; }
struct late {
    int (*call_shared)(int), (*call_own)(int);
};
