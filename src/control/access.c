/*
 * Identities of callers and their rights. The table of control.c has the least role of every route,
 * which is checked here before the route's handler runs. Handlers also check here who owns a
 * workload.
 *
 *   a unix socket          user, and admin according to auth.h
 *   a token                the token's role
 *   a node's certificate   only the parts of the API that are open to anybody
 *   no identity            likewise
 */
#include <string.h>
#include <strings.h>

#include "control/control_internal.h"

static const char *const role_names[HTTP_ROLE_END] = {
    [HTTP_ANYBODY] = "nothing",
    [HTTP_VIEWER] = "viewer",
    [HTTP_USER] = "user",
    [HTTP_ADMIN] = "admin",
};

const char *control_role_name(enum http_role role)
{
    return role_names[role];
}

bool control_role_parse(const char *text, enum http_role *ret)
{
    for (int i = HTTP_VIEWER; i < HTTP_ROLE_END; i++)
        if (str_equal(text, role_names[i])) {
            *ret = (enum http_role)i;
            return true;
        }
    return false;
}

/* Returns the token of an Authorization header; NULL: none, or another scheme. */
static const char *bearer(const struct http_request *r)
{
    static const char scheme[] = "Bearer ";
    const char *header = http_request_header(r, "Authorization");
    if (!header || strncasecmp(header, scheme, sizeof scheme - 1) != 0)
        return NULL;
    header += sizeof scheme - 1;
    return header + strspn(header, " ");
}

static int show_token(struct error *e, struct control *c, const char *text, struct http_peer *peer)
{
    const struct token *token = tokens_find(c, text);
    if (!token)
        return error_set(e, ERR_UNAUTHENTICATED,
                         "this token is not known: it was revoked, has expired, or is for another "
                         "gpumux");
    peer->kind = HTTP_PEER_TOKEN;
    peer->role = token->role;
    peer->token = token->id;
    str_copy(peer->account, sizeof peer->account, token->account);
    return 0;
}

static int refuse_role(struct error *e, const struct http_peer *peer, enum http_role least)
{
    switch (peer->kind) {
    case HTTP_PEER_NODE:
        return error_set(e, ERR_DENIED, "the certificate of node '%s' is not for the API",
                         peer->account);
    case HTTP_PEER_STRANGER:
        return error_set(
            e, ERR_UNAUTHENTICATED,
            "show a token (GPUMUX_TOKEN, or Authorization: Bearer gmx_…); 'gpumux token "
            "create' on control's machine makes one");
    case HTTP_PEER_TOKEN:
        return error_set(e, ERR_DENIED, "this takes the role %s, and the token has %s",
                         role_names[least], role_names[peer->role]);
    case HTTP_PEER_UNIX:
        break;
    }
    return error_set(e, ERR_DENIED, "only an administrator may do this");
}

int control_authorize(struct error *e, void *context, const struct http_request *r,
                      enum http_role least, struct http_peer *peer)
{
    struct control *c = context;
    const char *token = peer->kind == HTTP_PEER_UNIX ? NULL : bearer(r);
    peer->role = HTTP_ANYBODY;
    if (token) {
        int result = show_token(e, c, token, peer);
        if (result < 0)
            return result;
    } else if (peer->kind == HTTP_PEER_UNIX) {
        bool admin = least == HTTP_ADMIN && auth_is_admin(c->auth, peer);
        peer->role = admin ? HTTP_ADMIN : HTTP_USER;
    }
    return peer->role < least ? refuse_role(e, peer, least) : 0;
}

bool control_is_admin(const struct control *c, const struct http_request *r)
{
    const struct http_peer *peer = http_request_peer(r);
    return peer->role == HTTP_ADMIN ||
           (peer->kind == HTTP_PEER_UNIX && auth_is_admin(c->auth, peer));
}

bool control_may(const struct control *c, const struct http_request *r,
                 const struct store_owner *owner)
{
    const struct http_peer *peer = http_request_peer(r);
    bool is_owner = false;
    if (peer->kind == HTTP_PEER_TOKEN)
        is_owner = str_equal(owner->user, peer->account);
    else if (owner->uid == UID_BY_NAME)
        is_owner = str_equal(owner->user, auth_user_name(c->auth, peer->uid));
    else
        is_owner = owner->uid == peer->uid;
    return is_owner || control_is_admin(c, r);
}

struct store_owner control_caller(const struct control *c, const struct http_request *r)
{
    const struct http_peer *peer = http_request_peer(r);
    if (peer->kind == HTTP_PEER_UNIX)
        return (struct store_owner){.uid = peer->uid, .user = auth_user_name(c->auth, peer->uid)};
    uid_t uid;
    if (auth_find_user(NULL, peer->account, &uid) < 0)
        uid = UID_BY_NAME;
    return (struct store_owner){.uid = uid, .user = peer->account};
}

uint64_t control_owner_number(uint32_t uid, const char *user)
{
    return uid == UID_BY_NAME ? hash_string(user) : uid;
}
