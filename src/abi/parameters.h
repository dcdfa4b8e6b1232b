/* Macros that turn the types in a list such as api/cuda_calls.def into parameters of functions. */
#pragma once

/* CALL_PARAMETERS(int, char *) is (int a, char *b); CALL_ARGUMENTS(int, char *) is (a, b). */
#define CALL_NTH(_0, _1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, n, ...) n

#define CALL_COUNT(...) CALL_NTH(0, ##__VA_ARGS__, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)

#define CALL_JOIN(a, b)     a##b
#define CALL_OF_COUNT(a, b) CALL_JOIN(a, b)

#define CALL_PARAMETERS(...) CALL_OF_COUNT(CALL_PARAMETERS_, CALL_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define CALL_ARGUMENTS(...)  CALL_OF_COUNT(CALL_ARGUMENTS_, CALL_COUNT(__VA_ARGS__))

#define CALL_PARAMETERS_0()                          (void)
#define CALL_PARAMETERS_1(A)                         (A a)
#define CALL_PARAMETERS_2(A, B)                      (A a, B b)
#define CALL_PARAMETERS_3(A, B, C)                   (A a, B b, C c)
#define CALL_PARAMETERS_4(A, B, C, D)                (A a, B b, C c, D d)
#define CALL_PARAMETERS_5(A, B, C, D, E)             (A a, B b, C c, D d, E e)
#define CALL_PARAMETERS_6(A, B, C, D, E, F)          (A a, B b, C c, D d, E e, F f)
#define CALL_PARAMETERS_7(A, B, C, D, E, F, G)       (A a, B b, C c, D d, E e, F f, G g)
#define CALL_PARAMETERS_8(A, B, C, D, E, F, G, H)    (A a, B b, C c, D d, E e, F f, G g, H h)
#define CALL_PARAMETERS_9(A, B, C, D, E, F, G, H, I) (A a, B b, C c, D d, E e, F f, G g, H h, I i)
#define CALL_PARAMETERS_10(A, B, C, D, E, F, G, H, I, J)                                           \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j)
#define CALL_PARAMETERS_11(A, B, C, D, E, F, G, H, I, J, K)                                        \
    (A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k)
#define CALL_ARGUMENTS_0  ()
#define CALL_ARGUMENTS_1  (a)
#define CALL_ARGUMENTS_2  (a, b)
#define CALL_ARGUMENTS_3  (a, b, c)
#define CALL_ARGUMENTS_4  (a, b, c, d)
#define CALL_ARGUMENTS_5  (a, b, c, d, e)
#define CALL_ARGUMENTS_6  (a, b, c, d, e, f)
#define CALL_ARGUMENTS_7  (a, b, c, d, e, f, g)
#define CALL_ARGUMENTS_8  (a, b, c, d, e, f, g, h)
#define CALL_ARGUMENTS_9  (a, b, c, d, e, f, g, h, i)
#define CALL_ARGUMENTS_10 (a, b, c, d, e, f, g, h, i, j)
#define CALL_ARGUMENTS_11 (a, b, c, d, e, f, g, h, i, j, k)

/* A program defines its list of calls as a macro LIST(CALL). LIST(CALL_MEMBER) then declares the
 * members of a struct of function pointers, and CALL_NAMES(LIST) is the array of names for
 * library_load(). */
#define CALL_MEMBER(symbol) call_##symbol *symbol;
#define CALL_NAME(symbol)   #symbol,
#define CALL_NAMES(LIST)    ((const char *const[]){LIST(CALL_NAME) 0})
