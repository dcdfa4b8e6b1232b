/*
 * gpumux control init: prepares a cluster. The command writes to the state directory, so control
 * must be down; write access to the directory is the only permission that is needed.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/daemon/daemons.h"
#include "cli/connect/paths.h"
#include "control/authority.h"
#include "store/store.h"
#include "tls/fingerprint.h"
#include "tls/token.h"
#include "wire/address.h"

enum { ARENA_BYTES = 64 << 10, TOKEN_LIFE_MS = 24 * 3600 * 1000 };

static int ignore_token(void *arg, const struct store_token *token)
{
    (void)arg, (void)token;
    return 0;
}

static int add_token(struct error *e, struct store *store, const char *text)
{
    char hash[TOKEN_HASH_TEXT_MAX];
    uint64_t last = 0;
    int r = token_hash(e, text, hash);
    if (r == 0)
        r = store_tokens(e, store, ignore_token, NULL, &last);
    if (r < 0)
        return r;
    int64_t now = clock_wall_ms();
    const struct store_token token = {.id = last + 1,
                                      .hash = hash,
                                      .role = "node",
                                      .account = "",
                                      .creator = "control init",
                                      .created_wall_ms = now,
                                      .expires_wall_ms = now + TOKEN_LIFE_MS};
    struct store_batch *batch = store_batch_new();
    if (!batch || store_batch_token(batch, &token) < 0)
        r = error_set(e, ERR_NO_MEMORY, "out of memory");
    else
        r = store_commit(e, store, batch);
    store_batch_free(batch);
    return r;
}

static int say(struct error *e, const char *state, const char *token)
{
    struct authority *authority;
    char fingerprint[FINGERPRINT_TEXT_MAX];
    int r = authority_open(e, state, &authority);
    if (r < 0)
        return r;
    const char *url = authority_url(authority);
    printf("gpumux node --control %s --ca %s --token %s\n", url,
           fingerprint_format(authority_fingerprint(authority), fingerprint), token);
    fprintf(stderr,
            "\n"
            "Run this command on a machine with GPUs to make the machine a node; the token works "
            "once, within 24 hours.\n"
            "Control must be up: gpumux control --state %s --listen %s\n"
            "For more nodes: gpumux token create --role node\n",
            state, url + strlen("https://"));
    authority_free(authority);
    return 0;
}

/* The store comes first: its lock shows that control is down. */
static int prepare(struct error *e, struct arena *arena, const char *url, const char *given_state)
{
    struct address address;
    struct str place;
    struct store *store = NULL;
    const char *state = NULL, *clean = NULL;
    char token[TOKEN_TEXT_MAX];
    str_init(&place, ADDRESS_TEXT_MAX);
    int r = address_parse_url(e, url, &address);
    if (r == 0)
        r = paths_make_state(e, arena, given_state, &state);
    if (r == 0) {
        address_write(&address, &place);
        clean = arena_printf(arena, "https://%s", str_text(&place));
        if (!clean)
            r = error_set(e, ERR_NO_MEMORY, "out of memory");
    }
    if (r == 0)
        r = token_make(e, TOKEN_JOIN, token);
    if (r == 0)
        r = store_open_sqlite(e, state, &store);
    if (r == 0)
        r = authority_make(e, state, clean, address.host);
    if (r == 0)
        r = add_token(e, store, token);
    if (r == 0)
        r = say(e, state, token);
    store_close(store);
    str_done(&place);
    return r;
}

int control_init_command(const struct invocation *in)
{
    struct error e = {0};
    struct arena arena;
    static const char *const of_start[] = {"config", "set",         "policy",
                                           "listen", "node-socket", NULL};
    const char *url = option_value(in, "url"), *stray = option_given_of(in, of_start);
    int r;
    arena_init(&arena, ARENA_BYTES);
    if (strcmp(in->operands[0], "init") != 0)
        r = error_set(&e, ERR_INVALID, "the operand must be 'init', not '%s'", in->operands[0]);
    else if (stray)
        r = error_set(&e, ERR_INVALID,
                      "--%s has no effect on 'init', which starts nothing: give the option to "
                      "'gpumux control'",
                      stray);
    else if (!url)
        r = error_set(&e, ERR_INVALID,
                      "--url is missing: give the address at which nodes and clients reach "
                      "control, https://HOST:PORT");
    else
        r = prepare(&e, &arena, url, option_value(in, "state"));
    if (r < 0)
        fprintf(stderr, "gpumux: control: %s\n", e.text);
    arena_done(&arena);
    return r == 0 ? COMMAND_OK : r == -ERR_INVALID ? COMMAND_USAGE : COMMAND_FAILED;
}
