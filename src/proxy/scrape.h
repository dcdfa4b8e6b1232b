/*
 * Fetches the metrics page of a server once a second, over a connection of its own for each page.
 * A server that does not answer, or has no such page, is asked again.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "proxy/adapter.h"
#include "proxy/http1.h"

enum {
    SCRAPE_EVERY_MS = 1000,
    SCRAPE_SELDOM_MS = 30000, /* interval if a server that may have a page has none */
    SCRAPE_LIMIT_MS = 5000,   /* time for one page */
    SCRAPE_PAGE_MAX = 8 << 20,
    SCRAPE_PATH_MAX = 128,
    SCRAPE_HTTP_OK = 200,
};

struct scrape {
    int epoll_fd;
    void *watch; /* the value that epoll returns for the connection */
    int port;
    char path[SCRAPE_PATH_MAX];
    int fd;           /* -1: none */
    bool sent;        /* the request was sent */
    int64_t next_ms;  /* time of the next page; INT64_MAX: one is under way */
    int64_t limit_ms; /* end of the time for the page; INT64_MAX: none is under way */
    uint64_t bytes;   /* of the page so far */
    int failures;     /* in a row */
    struct http1_parser parser;
    struct adapter adapter;
};

/* Starts a page, or gives up one, if it is time. */
void scrape_step(struct scrape *s, int64_t now_ms);
/* Continues the page. Returns true when a page is complete: the caller ends the adapter's page. */
bool scrape_event(struct scrape *s, char *block, size_t size, int64_t now_ms);
/* Returns the time at which scrape_step() has something to do. */
int64_t scrape_next_ms(const struct scrape *s);
void scrape_done(struct scrape *s);
