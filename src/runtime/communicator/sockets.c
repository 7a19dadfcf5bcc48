/* SPDX-License-Identifier: Apache-2.0 */
/* Rank 0 listens, and passes on what the others send: a few hundred bytes at a time, before steps and in their first
 * runs. A connection that ends is a rank that is gone. */
#include "runtime/communicator/meeting.h"

#include "base/error.h"
#include "base/text.h"
#include "runtime/device/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <headroom/version.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MEETING_PATIENCE_S 120 /* until all processes have started */
#define RETRY_US 50000

typedef enum message_kind { MESSAGE_HELLO = 0x68720001, MESSAGE_BYTES, MESSAGE_END } message_kind;

/* Before the bytes of each message. */
typedef struct message_head {
  uint32_t kind; /* message_kind */
  uint32_t rank;
  uint64_t bytes;
} message_head;

typedef struct hello {
  int64_t size;
  char version[32];
} hello;

typedef struct socket_meeting {
  hr_meeting base;
  char failure[256]; /* "": none */
  int *sockets;      /* [size]: rank 0 has one of each other rank; others have that of rank 0 alone. −1: none */
} socket_meeting;

static socket_meeting *of(hr_meeting *meeting)
{
  return (socket_meeting *)meeting;
}

static void close_all(socket_meeting *m)
{
  for (int64_t i = 0; i < m->base.size; i++) {
    if (m->sockets[i] >= 0)
      close(m->sockets[i]);
  }
}

/* ---- bytes ---- */

static bool send_all(int socket, const void *from, size_t bytes)
{
  const char *at = from;
  while (bytes > 0) {
    const ssize_t sent = send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR)
      continue;
    if (sent <= 0)
      return false;
    at += sent;
    bytes -= (size_t)sent;
  }
  return true;
}

static bool send_message(int socket, message_kind kind, int64_t rank, const void *from, size_t bytes)
{
  const message_head head = {kind, (uint32_t)rank, bytes};
  return send_all(socket, &head, sizeof head) && send_all(socket, from, bytes);
}

typedef enum received { RECEIVED, RECEIVED_LATE, RECEIVED_END } received;

/* `until_ns` 0: without end. */
static received receive_all(int socket, void *to, size_t bytes, double until_ns)
{
  char *at = to;
  while (bytes > 0) {
    const double left_ms = (until_ns - hr_clock_ns()) / 1e6;
    struct pollfd wait = {.fd = socket, .events = POLLIN};
    const int ready = poll(&wait, 1, until_ns == 0 ? -1 : left_ms > 0 ? (int)left_ms + 1 : 0);
    if (ready < 0 && errno == EINTR)
      continue;
    if (ready == 0)
      return RECEIVED_LATE;
    const ssize_t got = recv(socket, at, bytes, 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return RECEIVED_END;
    at += got;
    bytes -= (size_t)got;
  }
  return RECEIVED;
}

/* ---- failures ---- */

static void keep_failure(socket_meeting *m, const char *text)
{
  if (!m->failure[0])
    strncpy(m->failure, text, sizeof m->failure - 1);
}

/* Rank 0 tells the others what it knows; they tell rank 0. */
static void tell_failure(const socket_meeting *m)
{
  for (int64_t i = 0; i < m->base.size; i++) {
    if (m->sockets[i] >= 0)
      send_message(m->sockets[i], MESSAGE_END, m->base.rank, m->failure, strlen(m->failure) + 1);
  }
}

static hr_status fail_meeting(socket_meeting *m, hr_error *error)
{
  return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s", m->failure);
}

static hr_status fail_rank(socket_meeting *m, int64_t rank, const char *did, const hr_exchange *e, hr_error *error)
{
  char text[sizeof m->failure], within[48] = "";
  if (e && e->patience_s > 0)
    hr_write_text(within, sizeof within, " within %g s", e->patience_s);
  snprintf(text, sizeof text, "rank %" PRId64 " of %" PRId64 " %s%s%s%s", rank, m->base.size, did, e ? " " : "",
           e ? e->what : "", within);
  keep_failure(m, text);
  tell_failure(m);
  return fail_meeting(m, error);
}

/* ---- messages ---- */

static hr_status take_end(socket_meeting *m, int64_t rank, uint64_t bytes, hr_error *error)
{
  char text[sizeof m->failure] = "";
  const size_t fits = bytes < sizeof text ? (size_t)bytes : sizeof text - 1;
  receive_all(m->sockets[rank], text, fits, hr_clock_ns() + 1e9);
  text[sizeof text - 1] = 0;
  keep_failure(m, text);
  if (m->base.rank == 0)
    tell_failure(m);
  return fail_meeting(m, error);
}

/* A message of `bytes` from a rank. */
static hr_status take_bytes(socket_meeting *m, int64_t rank, const hr_exchange *e, void *to, size_t bytes,
                            double until_ns, hr_error *error)
{
  message_head head;
  received got = receive_all(m->sockets[rank], &head, sizeof head, until_ns);
  if (got == RECEIVED && head.kind == MESSAGE_END)
    return take_end(m, rank, head.bytes, error);
  if (got == RECEIVED && (head.kind != MESSAGE_BYTES || head.bytes != bytes))
    return fail_rank(m, rank, "sends something else for", e, error);
  if (got == RECEIVED)
    got = receive_all(m->sockets[rank], to, bytes, until_ns);
  if (got == RECEIVED)
    return HR_OK;
  return got == RECEIVED_LATE ? fail_rank(m, rank, "has not come to", e, error)
                              : fail_rank(m, rank, "is gone before", &(hr_exchange){.what = e->what}, error);
}

static hr_status exchange_as_hub(socket_meeting *m, const hr_exchange *e, double until_ns, hr_error *error)
{
  const size_t all_bytes = (size_t)m->base.size * e->bytes;
  memcpy(e->all, e->mine, e->bytes);
  for (int64_t i = 1; i < m->base.size; i++)
    HR_TRY(take_bytes(m, i, e, (char *)e->all + (size_t)i * e->bytes, e->bytes, until_ns, error));
  for (int64_t i = 1; i < m->base.size; i++) {
    if (!send_message(m->sockets[i], MESSAGE_BYTES, 0, e->all, all_bytes))
      return fail_rank(m, i, "is gone before", &(hr_exchange){.what = e->what}, error);
  }
  return HR_OK;
}

/* Rank 0 says who is missing: it gets a second more for that. */
static hr_status exchange(hr_meeting *meeting, const hr_exchange *e, hr_error *error)
{
  socket_meeting *m = of(meeting);
  const bool hub = meeting->rank == 0;
  const double until_ns = e->patience_s == 0 ? 0 : hr_clock_ns() + (e->patience_s + (hub ? 0 : 1)) * 1e9;
  char nothing;
  hr_exchange x = *e;
  x.all = e->all ? e->all : &nothing;
  x.mine = e->mine ? e->mine : &nothing;
  if (m->failure[0])
    return fail_meeting(m, error);
  if (hub)
    return exchange_as_hub(m, &x, until_ns, error);
  if (!send_message(m->sockets[0], MESSAGE_BYTES, meeting->rank, x.mine, x.bytes))
    return fail_rank(m, 0, "is gone before", &(hr_exchange){.what = e->what}, error);
  return take_bytes(m, 0, &x, x.all, (size_t)meeting->size * x.bytes, until_ns, error);
}

/* The end of a connection, or a message that is not expected. */
static hr_status check(hr_meeting *meeting, hr_error *error)
{
  socket_meeting *m = of(meeting);
  for (int64_t i = 0; i < meeting->size && !m->failure[0]; i++) {
    message_head head;
    if (m->sockets[i] < 0)
      continue;
    const ssize_t got = recv(m->sockets[i], &head, sizeof head, MSG_PEEK | MSG_DONTWAIT);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
      return fail_rank(m, i, "is gone", NULL, error);
    if (got == sizeof head && head.kind == MESSAGE_END) {
      receive_all(m->sockets[i], &head, sizeof head, hr_clock_ns() + 1e9);
      return take_end(m, i, head.bytes, error);
    }
  }
  return m->failure[0] ? fail_meeting(m, error) : HR_OK;
}

static void give_up(hr_meeting *meeting, const char *reason)
{
  socket_meeting *m = of(meeting);
  char text[sizeof m->failure];
  if (m->failure[0])
    return;
  snprintf(text, sizeof text, "rank %" PRId64 " of %" PRId64 " gave up: %s", meeting->rank, meeting->size, reason);
  keep_failure(m, text);
  tell_failure(m);
}

static void leave(hr_meeting *meeting)
{
  socket_meeting *m = of(meeting);
  close_all(m);
  free(m->sockets);
  free(m);
}

static const hr_meeting_functions functions = {
    .exchange = exchange, .check = check, .give_up = give_up, .leave = leave};

/* ---- meeting ---- */

static void send_at_once(int socket)
{
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static struct addrinfo *addresses_of(const hr_communicator_options *o, hr_error *error)
{
  const struct addrinfo wanted = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  char port[24];
  snprintf(port, sizeof port, "%" PRId64, o->port);
  const int result = getaddrinfo(o->address, port, &wanted, &found);
  if (result == 0)
    return found;
  hr_fail(error, HR_ERROR_UNAVAILABLE, "%s: %s", o->address, gai_strerror(result));
  return NULL;
}

/* Listens at the first address that is this host's. −1: at none. */
static int listen_at(const struct addrinfo *addresses)
{
  for (const struct addrinfo *a = addresses; a; a = a->ai_next) {
    const int on = 1, s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s < 0)
      continue;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, a->ai_addr, a->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0)
      return s;
    const int number = errno;
    close(s);
    errno = number;
  }
  return -1;
}

static hello own_hello(const socket_meeting *m)
{
  hello h = {.size = m->base.size};
  strncpy(h.version, hr_version(), sizeof h.version - 1);
  return h;
}

/* The first words of a connection; a stranger's is closed. */
static hr_status welcome(socket_meeting *m, int socket, double until_ns, hr_error *error)
{
  const hello own = own_hello(m);
  message_head head;
  hello h;
  if (receive_all(socket, &head, sizeof head, until_ns) != RECEIVED || head.kind != MESSAGE_HELLO ||
      head.bytes != sizeof h || receive_all(socket, &h, sizeof h, until_ns) != RECEIVED) {
    close(socket);
    return HR_OK;
  }
  h.version[sizeof h.version - 1] = 0;
  const char *wrong = memcmp(h.version, own.version, sizeof h.version) != 0 ? "has another version of Headroom"
                      : h.size != own.size                                  ? "expects another number of ranks"
                      : head.rank < 1 || head.rank >= own.size              ? "is none of them"
                      : m->sockets[head.rank] >= 0                          ? "is there twice"
                                                                            : NULL;
  if (wrong) {
    char text[sizeof m->failure];
    snprintf(text, sizeof text, "rank %u of %" PRId64 " %s", head.rank, own.size, wrong);
    send_message(socket, MESSAGE_END, 0, text, strlen(text) + 1);
    close(socket);
    keep_failure(m, text);
    tell_failure(m);
    return hr_fail(error, HR_ERROR_INVALID, "%s", text);
  }
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  send_at_once(socket);
  m->sockets[head.rank] = socket;
  return HR_OK;
}

static int64_t first_missing(const socket_meeting *m)
{
  int64_t rank = 1;
  while (rank < m->base.size && m->sockets[rank] >= 0)
    rank++;
  return rank;
}

static hr_status gather(socket_meeting *m, int listening, double until_ns, hr_error *error)
{
  while (first_missing(m) < m->base.size) {
    struct pollfd wait = {.fd = listening, .events = POLLIN};
    const double left_ms = (until_ns - hr_clock_ns()) / 1e6;
    const int ready = left_ms > 0 ? poll(&wait, 1, (int)left_ms + 1) : 0;
    if (ready == 0)
      return hr_fail(error, HR_ERROR_UNAVAILABLE, "rank %" PRId64 " of %" PRId64 " has not come within %d s",
                     first_missing(m), m->base.size, MEETING_PATIENCE_S);
    const int socket = ready > 0 ? accept(listening, NULL, NULL) : -1;
    if (socket >= 0)
      HR_TRY(welcome(m, socket, hr_clock_ns() + 5e9, error));
  }
  return HR_OK;
}

static hr_status meet_as_hub(socket_meeting *m, const struct addrinfo *addresses, const hr_communicator_options *o,
                             double until_ns, hr_error *error)
{
  const int listening = listen_at(addresses);
  if (listening < 0) {
    char reason[HR_REASON_SIZE];
    return hr_fail(error, HR_ERROR_UNAVAILABLE, "%s, port %" PRId64 ": %s", o->address, o->port,
                   hr_reason(errno, reason));
  }
  const hr_status status = gather(m, listening, until_ns, error);
  close(listening);
  return status;
}

static int connect_to(const struct addrinfo *addresses)
{
  for (const struct addrinfo *a = addresses; a; a = a->ai_next) {
    const int s = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (s >= 0 && connect(s, a->ai_addr, a->ai_addrlen) == 0)
      return s;
    if (s >= 0)
      close(s);
  }
  return -1;
}

/* Rank 0 may start later. */
static hr_status meet_as_other(socket_meeting *m, const struct addrinfo *addresses, const hr_communicator_options *o,
                               double until_ns, hr_error *error)
{
  const hello own = own_hello(m);
  while ((m->sockets[0] = connect_to(addresses)) < 0) {
    if (hr_clock_ns() > until_ns)
      return hr_fail(error, HR_ERROR_UNAVAILABLE, "rank 0 does not listen at %s, port %" PRId64 ", since %d s",
                     o->address, o->port, MEETING_PATIENCE_S);
    usleep(RETRY_US);
  }
  send_at_once(m->sockets[0]);
  if (!send_message(m->sockets[0], MESSAGE_HELLO, m->base.rank, &own, sizeof own))
    return fail_rank(m, 0, "is gone", NULL, error);
  return HR_OK;
}

static socket_meeting *make_meeting(const hr_communicator_options *o)
{
  socket_meeting *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->base = (hr_meeting){.functions = &functions, .rank = o->rank, .size = o->size};
  m->sockets = malloc((size_t)o->size * sizeof *m->sockets);
  for (int64_t i = 0; m->sockets && i < o->size; i++)
    m->sockets[i] = -1;
  if (m->sockets)
    return m;
  free(m);
  return NULL;
}

hr_status hr_meet_as_processes(const hr_communicator_options *o, hr_meeting **meeting, hr_error *error)
{
  const double until_ns = hr_clock_ns() + MEETING_PATIENCE_S * 1e9;
  socket_meeting *m = make_meeting(o);
  if (!m)
    return hr_fail(error, HR_ERROR_OUT_OF_MEMORY, "not enough memory for %" PRId64 " ranks", o->size);
  hr_status status = HR_OK;
  if (o->size > 1) {
    struct addrinfo *addresses = addresses_of(o, error);
    status = !addresses     ? HR_ERROR_UNAVAILABLE
             : o->rank == 0 ? meet_as_hub(m, addresses, o, until_ns, error)
                            : meet_as_other(m, addresses, o, until_ns, error);
    if (addresses)
      freeaddrinfo(addresses);
  }
  const hr_exchange all_here = {.what = "the meeting", .patience_s = MEETING_PATIENCE_S};
  if (status == HR_OK)
    status = exchange(&m->base, &all_here, error);
  if (status == HR_OK)
    *meeting = &m->base;
  else
    leave(&m->base);
  return status;
}
