/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the command, which uses only the public interface of the library. */
#ifndef CLI_H
#define CLI_H
#include <headroom/experimental/headroom.h>
#include <stdio.h>
#include <time.h>

/* docs/cli.md documents them. */
enum {
  EXIT_FINE = 0,
  EXIT_FINDINGS = 1,    /* --strict and a finding of severity high; serve-plan, plan: nothing fits or meets the limits;
                           compare: slower */
  EXIT_USAGE = 2,       /* the command line, also a device that does not exist */
  EXIT_INPUT = 3,       /* a model or a file that cannot be read or is wrong */
  EXIT_UNSUPPORTED = 4, /* not covered by Headroom, not on this machine, or nothing could be measured */
  EXIT_OUTPUT = 5,      /* the result cannot be written, or memory ran out */
  EXIT_INTERRUPTED = 130
};

/** MIN:MAX:STEP of an option; 0 if not given. */
typedef struct cli_range {
  int64_t min, max, step;
} cli_range;

/** I/N of an option; 0 if not given. */
typedef struct cli_shard {
  int64_t index, count;
} cli_shard;

/** N,N,… of an option; count 0 if not given. */
#define CLI_SIZES_MAX 16
typedef struct cli_sizes {
  size_t count;
  int64_t values[CLI_SIZES_MAX];
} cli_sizes;

/** X,X,… of an option; count 0 if not given. */
typedef struct cli_numbers {
  size_t count;
  double values[CLI_SIZES_MAX];
} cli_numbers;

typedef enum cli_color { CLI_COLOR_AUTO, CLI_COLOR_ALWAYS, CLI_COLOR_NEVER } cli_color;

/* The type of the member that each kind of option fills. */
typedef bool cli_FLAG;
typedef int64_t cli_INTEGER;
typedef double cli_NUMBER;
typedef double cli_DURATION; /* ns */
typedef double cli_QUANTITY;
typedef const char *cli_TEXT; /* of argv */
typedef cli_range cli_RANGE;
typedef cli_shard cli_SHARD;
typedef cli_sizes cli_SIZES;
typedef cli_numbers cli_NUMBERS;
typedef uint32_t cli_SHAPE_SIZES; /* bits of hr_search_size */
typedef hr_phase cli_PHASE;
typedef hr_attention_form cli_ATTENTION;
typedef hr_recompute cli_RECOMPUTE;
typedef hr_dropout cli_DROPOUT;
typedef hr_framework cli_FRAMEWORK;
typedef hr_serve_engine cli_ENGINE;
typedef hr_serve_engine cli_EMITTED;
typedef hr_flash_library cli_FLASH_LIBRARY;
typedef hr_dtype cli_DTYPE;
typedef hr_clock cli_CLOCK;
typedef hr_cache cli_CACHE;
typedef hr_layout cli_LAYOUT;
typedef hr_kv_format cli_CACHE_FORMAT;
typedef hr_kv_format cli_READABLE_CACHE;
typedef hr_kv_scales cli_SCALES;
typedef hr_format cli_FORMAT;
typedef hr_csv_table cli_CSV;
typedef hr_view cli_VIEW;
typedef cli_color cli_COLOR;
typedef unsigned cli_CLASSES;     /* bit i: hr_change_class i */
typedef unsigned cli_TRAINERS;    /* of hr_training_framework */
typedef unsigned cli_POINT_KINDS; /* bit i: hr_interval_kind i */
typedef uint64_t cli_RULES;       /* bit i: rule i of hr_rules() */

#define SHARDS_MAX 1000000
#define LARGEST_SIZE 1099511627776 /* 2^40, the library's own limit */

/** The options of the command line. Those not given are zero; cli_run.given[] distinguishes a given zero. */
typedef struct cli_options {
#define CLI_OPTION(group, member, long_name, short_name, kind, least, most, argument, help) cli_##kind member;
#include "options.inc"
#undef CLI_OPTION
} cli_options;

enum {
#define CLI_OPTION(group, member, long_name, short_name, kind, least, most, argument, help) CLI_OPTION_##member,
#include "options.inc"
#undef CLI_OPTION
  CLI_OPTION_COUNT
};

typedef struct cli_run cli_run;

/** One row of commands.inc. */
typedef struct cli_command {
  const char *name;
  const char *arguments;
  uint64_t groups;
  const char *summary;
} cli_command;

/** Runs a command. Returns the exit code. */
typedef int (*cli_command_fn)(const cli_run *run);

/** A command with its command line, read. */
struct cli_run {
  const cli_command *command;
  cli_options options;
  bool given[CLI_OPTION_COUNT];
  hr_hardware *hardware; /* the device that the command is about; empty until one is loaded */
  bool probe;            /* measure a device's rates before a measurement: not with HEADROOM_PROBE=0 */
  int argument_count;
  const char **arguments; /* NULL-terminated */
};

/* ---- commands.c ---- */

/** The command of this name; NULL if there is none. */
const cli_command *cli_find_command(const char *name);

/** All commands, in the order of commands.inc. */
const cli_command *cli_all_commands(size_t *count);

/** Its row in commands.inc, from 0. */
size_t cli_command_index(const cli_command *command);

/** Prints that there is no such command, with similar names. Returns EXIT_USAGE. */
int cli_unknown_command(const char *name);

/** The list of commands. */
void cli_print_summary(FILE *out);

/* ---- errors.c ---- */

/** Writes one line to standard error, "headroom: …", and returns `code`. Control characters become '?'. */
int cli_fail(int code, const char *format, ...) HR_PRINTF(2, 3);

/** Prints the message of a failed call of the library, or of the caller's. Returns the exit code of the status. */
int cli_fail_status(hr_status status, const hr_error *error);
int cli_fail_as(hr_status status, const char *message);

#ifdef __clang_analyzer__ /* see base/error.h */
#define cli_fail(code, ...) ((void)cli_fail(code, __VA_ARGS__), (code))
#define cli_fail_status(...) ((void)cli_fail_status(__VA_ARGS__), EXIT_UNSUPPORTED)
#endif

/* ---- options.c ---- */

/** Returned by functions that may end the command with an exit code: the command continues. */
#define CLI_GO_ON (-1)

/** Reads the command line (argv[0] is the command's name) and calls `function`, or prints the command's help. Returns
 *  the exit code. */
int cli_run_command(const cli_command *command, cli_command_fn function, int argc, char **argv);

/* ---- option_help.c ---- */

/** Prints the options and examples of a command to standard output. Returns the exit code. */
int cli_print_help(const cli_command *command);

/** Prints words from column `indent` on, in lines of the terminal's width, when `column` characters of the line are
 *  printed. */
void cli_print_words(FILE *out, const char *text, int indent, int column);

/** Prints the table of synonyms.inc. */
void cli_print_synonyms(FILE *out);

/* ---- option_table.c ---- */

/** Prints that `what` is none of `choices`, "a|b|c" or "a,b,c", with the nearest. Returns EXIT_USAGE. */
int cli_wrong_choice(const char *what, const char *choices, const char *text);

/** Reads a positive integer up to LARGEST_SIZE. Messages call it `what`. */
int cli_read_size(const char *what, const char *text, int64_t *value);

/* ---- inputs.c ---- */

/* `where` to look for a name that is not known; "" if the message suggests another, or the name is a path. */
const char *cli_hint(const hr_error *error, const char *name, const char *where);

/* Each returns CLI_GO_ON, or an exit code after printing why. */
/* `checkpoint`: the one beside the configuration, without files if there is none; may be NULL. */
int cli_load_model(const cli_run *run, hr_model *model, hr_checkpoint *checkpoint);
/* The model that an option names, as it is. */
int cli_load_named_model(const cli_run *run, const char *name, hr_model *model);
int cli_load_device(const cli_run *run, const char *otherwise, hr_hardware *hardware);
/* Loads a device without its calibration, to fit one; `file` is that of hr_resolve_uncalibrated(). */
int cli_load_uncalibrated(const cli_run *run, const char *otherwise, hr_hardware *hardware, char **file);
/* --network, --network-latency, --devices-per-node; cli_load_device() does it. */
int cli_set_network(const cli_run *run, hr_hardware *hardware);

/* --clock, --cache; cli_load_device() and cli_rates() do it. */
void cli_set_conditions(const cli_run *run, hr_hardware *hardware);
int cli_make_workload(const cli_run *run, const hr_model *model, hr_workload *workload);

/* Prints a note where a sequence of so many tokens has more than the model has positions. */
void cli_note_positions(const hr_model *model, int64_t tokens);

/** --dtype, else hr_hardware_usual_dtype(). Prints a note if that is not bf16, or if the device computes in another
 *  format than the one asked for; --quiet omits it. */
hr_dtype cli_dtype(const cli_run *run, const hr_hardware *hardware);
/** The same of a device that the notes call by another name. */
hr_dtype cli_dtype_of(const cli_run *run, const hr_hardware *hardware, const char *name);
/** Where Headroom's kernels are measured, the step of these kernels is predicted; an error for another --framework. */
int cli_set_measured_framework(const cli_run *run, hr_workload *workload);

/** The number format by cli_dtype(), and fused attention unless the device has no kernel for it in that format or
 *  --attention says otherwise. */
void cli_set_formats(const cli_run *run, const hr_hardware *hardware, hr_workload *workload);
int cli_check_measure(const cli_run *run); /* options that need --measure */
int cli_check_table(const cli_run *run);   /* --table needs CSV */
int cli_check_kernel(const cli_run *run);  /* --kernel is a kernel or a family */
/** --weights of `step` and `generate`, as hr_executor_load() takes it; else those beside the model; NULL: random. */
const char *cli_weights(const cli_run *run, const hr_model *model);
/** --weights-format on the model. */
int cli_set_weights_format(const cli_run *run, hr_model *model);
/** Whether the name is that of a device that hr_resolve_hardware() finds, as HR_OK or why not. */
hr_status cli_find_device(const char *name, hr_error *error);
int cli_open_own_device(const cli_run *run, hr_device **device); /* for --measure */
/** A device of this machine, else the rates of the one that --device names, *device being NULL. */
int cli_open_or_load_device(const cli_run *run, hr_device **device, hr_hardware *hardware);
int cli_open_store(const cli_run *run, hr_store_mode mode, hr_store **store); /* --db, or the default one */
/** hr_store_open() whose waits, and all reading of the store, a signal ends. */
hr_status cli_store_open(const char *path, hr_store_mode mode, hr_store **store, hr_error *error);

/** Opens a file of rows; NULL with errno. A pipe is opened non-blocking, so that one without a writer is empty rather
 *  than a hang, and then read blocking. */
FILE *cli_open_to_read(const char *path);
hr_status cli_cannot_read(const char *path, hr_error *error); /* an error from errno, which may be for want of memory */

/* ---- rows.c ---- */

/** Opens a store, or reads an export (CSV, JSON Lines; "-": of standard input) into a store in memory; refuses the file
 *  of --output. CLI_GO_ON, or an exit code after printing why; *store is then NULL. */
int cli_open_rows(const cli_run *run, const char *path, hr_store **store);

/** The same of --db, or of the default store. */
int cli_open_stored_rows(const cli_run *run, hr_store **store);

/** Adds the rows of a store or of an export to `store`. CLI_GO_ON, or an exit code after printing why. */
int cli_add_rows(const cli_run *run, const char *path, hr_store *store);

/* ---- output.c ---- */

/** Where the result goes. A file is written next to its target and renamed at the end, so that it is complete. */
typedef struct cli_output {
  FILE *stream;
  struct cli_stream *state; /* of the stream (output_stream.h) */
  int file;
  const char *name; /* for messages */
  char *target;     /* the file to replace; NULL when written directly */
  char *temporary;
  hr_report_options options;
} cli_output;

/** Opens --output or standard output and fills `options` from the command line. CLI_GO_ON or an exit code. */
int cli_output_open(const cli_run *run, cli_output *output);

/** Opens standard output for text that is no report: help, names, versions. CLI_GO_ON or an exit code. */
int cli_text_open(cli_output *output);

/** Ends it. Returns an exit code. */
int cli_text_close(cli_output *output);

/** Columns of the terminal at a file descriptor; elsewhere $COLUMNS, or `otherwise`. */
int cli_width(int file, int otherwise);

/** Ends the output. `status` is the report's; the file is only replaced when it is HR_OK. Returns an exit code. */
int cli_output_close(cli_output *output, hr_status status, const hr_error *error);

/** Ends an output without a result; the target stays as it was. */
void cli_output_discard(cli_output *output);

/* ---- output_check.c ---- */

/** CLI_GO_ON if a result can be written to `path`, "-" being standard output; no database is overwritten. */
int cli_check_file(const char *path);

/** CLI_GO_ON unless an option for writing names the file at `path` (may be NULL), which the command reads. */
int cli_check_input(const cli_run *run, const char *path);

/** CLI_GO_ON unless the command does not write --format, or an option names a file that cannot be written or that
 *  another result goes to. Checked before a command runs, which may measure and store for minutes before it writes. */
int cli_check_output(const cli_run *run);

/* ---- ranks.c ---- */

/** Which of several processes this is, from a launcher's variables; rank 0 of 1 without them. */
int cli_find_ranks(hr_communicator_options *ranks);

/** cli_open_own_device() of one of several processes: "cuda" is the GPU of its local rank, unless the launcher shows
 *  each process one GPU only, which is then number 0. On the CPU the processes of a machine divide its cores, unless
 *  --threads is given. */
int cli_open_rank_device(const cli_run *run, const hr_communicator_options *ranks, hr_device **device);

/** The run of one of several processes: as mpirun gives each a terminal, the output is without colours of its own
 *  choice; only the first reports progress and notes, if `one_reports`. */
cli_run cli_run_of_rank(const cli_run *run, const hr_communicator_options *ranks, bool one_reports);

/** CLI_GO_ON where there is one process or one for each rank of the layout; the first says otherwise. */
int cli_check_ranks(const hr_communicator_options *ranks, int64_t layout);

/** Joins the other processes; *communicator is NULL where there are none. */
int cli_join_ranks(const hr_communicator_options *ranks, hr_device *device, hr_communicator **communicator);

/** The end of a process of several: the others hear of a failure, of which each has its line. `output`: of the first,
 *  which cli_output_close() ends; NULL for the others. Returns an exit code. */
int cli_leave_ranks(hr_communicator *communicator, cli_output *output, hr_status status, const hr_error *error);

/* ---- progress.c ---- */

typedef struct cli_progress {
  bool enabled, shown;
  struct timespec start;
  double last_s; /* when the line was last written, after the start */
  double idle_s; /* of a sweep: when its points began, after the start */
} cli_progress;

/** From now on SIGINT, SIGTERM and SIGHUP set a flag; a second one of the same kind ends the process. */
void cli_catch_signals(void);

/** The file that a signal that ends the process removes; NULL: none. The path is not copied. */
void cli_unfinished(const char *path);
bool cli_interrupted(void);

/** While the command waits for input or computes long, and nothing would be left unfinished, a signal ends the process
 *  with EXIT_INTERRUPTED. */
void cli_blocking(bool begins);

/** While a measurement runs and nothing would be lost that the command has not stored, a signal gives the run in
 *  progress 2 s to end, since nothing can stop one of a library like oneDNN, which may take a minute. Then the process
 *  ends with EXIT_INTERRUPTED. */
void cli_measuring(bool begins);

cli_progress cli_progress_begin(const cli_run *run);

/** An hr_progress_fn whose context is a cli_progress: a line on a terminal, after the first second. */
int cli_progress_report(void *context, double done, const char *what);

/** Parts of cli_progress_report() for other lines. Seconds are since cli_progress_begin(). */
double cli_progress_seconds(const cli_progress *progress);
bool cli_progress_due(const cli_progress *progress);
void cli_progress_show(cli_progress *progress, const char *line);

/** Serves as hr_measure_options.cancelled. */
int cli_cancelled(void *context);

/** Whether energy is measured where the device counts it, which takes 1.3 s: not with a small --budget. */
bool cli_measures_energy(const cli_run *run);

/** hr_resolve_probed() with a progress line; Ctrl-C ends it. */
hr_status cli_probe(const cli_run *run, hr_device *device, hr_hardware *hardware, hr_error *error);

/** The rates of an open device: probed, or with HEADROOM_PROBE=0 as hr_resolve_hardware() knows them. */
hr_status cli_rates(const cli_run *run, hr_device *device, hr_hardware *hardware, hr_error *error);

/* ---- points.c ---- */

/** An hr_sweep_progress_fn whose context is a cli_progress. Until a point is done it calls cli_measuring(true), which
 *  the caller ends. */
int cli_points_report(void *context, const hr_sweep_progress *now);

/** A note on a run: how many points are in which store, how many of them were measured now; --quiet omits it. */
void cli_points_note(const cli_run *run, const hr_store *store, const hr_sweep_progress *now);

/* ---- progress.c ---- */

/** Removes the line. */
void cli_progress_end(cli_progress *progress);

#define CLI_COMMAND(identifier, name, arguments, groups, summary) int cli_##identifier(const cli_run *run);
#include "commands.inc"
#undef CLI_COMMAND

#endif
