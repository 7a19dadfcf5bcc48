/* SPDX-License-Identifier: Apache-2.0 */
/* Servers whose command lines are known: their options, and what these cannot express. */
#ifndef HR_REPORT_SERVE_SERVERS_H
#define HR_REPORT_SERVE_SERVERS_H

#include <headroom/serve.h>

/* What a server does: all of it, or what disaggregated ones do. */
typedef enum hr_server_role { HR_SERVES_ALL, HR_PREFILLS, HR_DECODES } hr_server_role;

typedef struct hr_served {
  const hr_model *model;
  const hr_workload *workload;
  const hr_serve_options *options;
  const hr_serve_point *point;
  hr_server_role role;
} hr_served;

#define HR_SERVER_VALUE_SIZE 96

/** An option of a command line. */
typedef struct hr_server_option {
  const char *name;
  bool (*write)(const hr_served *of, char *to); /* false: the option is left out; "": a flag */
} hr_server_option;

/** What no option expresses. */
typedef struct hr_server_refusal {
  bool (*meant)(const hr_served *of);
  const char *why;
} hr_server_refusal;

typedef struct hr_server {
  const char *begin;       /* of the line, before the model; NULL: not known */
  const char *environment; /* of servers of one role */
  const hr_server_option *options;
  const hr_server_refusal *refusals;
} hr_server;

/** The server of an engine; NULL: its options are not known. */
const hr_server *hr_server_of(hr_serve_engine engine);

/** Devices of one server of the role. */
int64_t hr_served_devices(const hr_served *of);

#endif
