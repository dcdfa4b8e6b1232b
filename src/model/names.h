/* Names of enum values, as users and files write them. */
#pragma once

struct names {
    int count;
    const char *const *items; /* indexed by value */
};

/* Returns the name of a value; "?" if the value has no name. */
const char *names_get(const struct names *names, int value);
/* Returns the value with this name, or -ERR_INVALID. */
int names_find(const struct names *names, const char *name);

/* Declares PREFIX_names, PREFIX_name() and PREFIX_parse(), which returns 0 or -ERR_INVALID. */
#define DECLARE_NAMES(type, prefix)                                                                \
    extern const struct names prefix##_names;                                                      \
    const char *prefix##_name(type value);                                                         \
    int prefix##_parse(const char *text, type *ret)

/* Defines the objects of DECLARE_NAMES. The variadic part initializes the array of names. */
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
