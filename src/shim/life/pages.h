/* Mapping the pages of abi/page.h. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The page of a file, seen as `bytes` long whatever the file's size: what it lacks reads as 0,
 * which is what a field that its writer did not know means. NULL: it is no page of that kind and of
 * this version. The descriptor stays the caller's. */
void *pages_map(int fd, uint32_t magic, size_t bytes, int protection);
/* Puts a page that pages_map() made in the place of another of the same size, while others read
 * there: each word is that of the one or of the other. `page` is gone afterwards. False: nothing
 * was replaced. */
bool pages_replace(void *place, void *page, size_t bytes);
/* Makes the page read as 0, for those who still look at it. */
void pages_clear(void *place, size_t bytes);
