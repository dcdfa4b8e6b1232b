/* The names of an enum's values, as people and files write them. */
#pragma once

struct names {
    int count;
    const char *const *items; /* by value */
};

/* "?" for a value that has no name. */
const char *names_get(const struct names *names, int value);
/* The value of this name, or -ERR_INVALID. */
int names_find(const struct names *names, const char *name);

/* Declares PREFIX_names, PREFIX_name() and PREFIX_parse(), which answers 0 or -ERR_INVALID. */
#define DECLARE_NAMES(type, prefix)                                                                \
    extern const struct names prefix##_names;                                                      \
    const char *prefix##_name(type value);                                                         \
    int prefix##_parse(const char *text, type *ret)

/* Defines them. The rest is the initializer of the array of names. */
#define DEFINE_NAMES(type, prefix, ...)                                                            \
    static const char *const prefix##_items[] = {__VA_ARGS__};                                     \
    const struct names prefix##_names = {sizeof prefix##_items / sizeof prefix##_items[0],         \
                                         prefix##_items};                                          \
    const char *prefix##_name(type value)                                                          \
    {                                                                                              \
        return names_get(&prefix##_names, (int)value);                                             \
    }                                                                                              \
    int prefix##_parse(const char *text, type *ret)                                                \
    {                                                                                              \
        int value = names_find(&prefix##_names, text);                                             \
        if (value >= 0)                                                                            \
            *ret = (type)value;                                                                    \
        return value < 0 ? value : 0;                                                              \
    }
