/* SPDX-License-Identifier: MIT
 *
 * As many symbols as it takes for tables of relocations in a snapshot.
 */
#define TEN(X, t) X(t##0) X(t##1) X(t##2) X(t##3) X(t##4) X(t##5) X(t##6) X(t##7) X(t##8) X(t##9)
#define EACH(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4)
