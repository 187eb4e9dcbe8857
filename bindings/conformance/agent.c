/* SPDX-License-Identifier: MIT */
/*
 * agent.c - the reference agent: the words of README.md by the calls of lockshm.h
 *
 * Reads lines from standard input and writes one line for each.  As in the languages a hold is renewed unless the line
 * says "norenew"; the library itself does not renew by default.
 */
#include <lockshm.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WORDS_MAX 32
#define HOLDS_MAX 16

struct line {
	char *words[WORDS_MAX];
	int n;
};

static FILE *in, *out;
static lockshm_t *segment;
static struct lockshm_report report = LOCKSHM_REPORT_INIT;
static int64_t timeout_ns;
static struct {
	char name[16];
	lockshm_hold_t hold;
} holds[HOLDS_MAX];

static void answer(const char *text)
{
	fprintf(out, "%s\n", text);
	fflush(out);
}

/* "'' 'a b' c" are three words. */
static void split(struct line *line, char *text)
{
	line->n = 0;
	while (*(text += strspn(text, " \n")) && line->n < WORDS_MAX) {
		const char *ends = *text == '\'' ? "'" : " \n";

		text += *text == '\'';
		line->words[line->n++] = text;
		text += strcspn(text, ends);
		if (*text)
			*text++ = '\0';
	}
}

static const char *named(const struct line *line, const char *name)
{
	size_t length = strlen(name);
	int i;

	for (i = 1; i < line->n; i++)
		if (strncmp(line->words[i], name, length) == 0 && line->words[i][length] == '=')
			return line->words[i] + length + 1;
	return NULL;
}

static int has(const struct line *line, const char *word)
{
	int i;

	for (i = 1; i < line->n; i++)
		if (strcmp(line->words[i], word) == 0)
			return 1;
	return 0;
}

static int64_t duration(const char *text)
{
	return strcmp(text, "none") == 0 ? LOCKSHM_FOREVER : (int64_t)(strtod(text, NULL) * 1e9 + 0.5);
}

static int64_t time_named(const struct line *line, const char *name, int64_t otherwise)
{
	const char *text = named(line, name);

	return text ? duration(text) : otherwise;
}

static lockshm_hold_t *hold_of(const char *name)
{
	int i = 0;

	while (holds[i].name[0] && strcmp(holds[i].name, name) != 0 && i < HOLDS_MAX - 1)
		i++;
	snprintf(holds[i].name, sizeof(holds[i].name), "%s", name);
	return &holds[i].hold;
}

/* The word of README.md for a code of the library. */
static void answer_code(int code)
{
	static const char *const held[] = { "ok", "died", "expired", "late", "local-only" };
	static const char *const refused[] = { "timeout", "busy", "cancelled", "lost", "not-held", "deadlock", "full",
					       "invalid", "invalid", "no-segment", "exists", "permission",
					       "bad-segment", "bad-segment", "no-memory", "bridge", "system" };

	answer(code >= 0 ? held[code] : refused[-code - 1]);
}

static int policy(const char *text)
{
	if (!text)
		return 0;
	return strcmp(text, "fail") == 0 ? LOCKSHM_REDIS_FAIL :
	       strcmp(text, "wait") == 0 ? LOCKSHM_REDIS_WAIT :
	       strcmp(text, "local-only") == 0 ? LOCKSHM_REDIS_LOCAL_ONLY : -1;
}

static struct lockshm_request request_of(const struct line *line, const char *key)
{
	struct lockshm_request request = LOCKSHM_REQUEST(key);

	request.mode = has(line, "shared") ? LOCKSHM_SHARED : LOCKSHM_EXCLUSIVE;
	request.timeout_ns = time_named(line, "timeout", request.timeout_ns);
	request.ttl_ns = time_named(line, "lease", request.ttl_ns);
	request.max_hold_ns = time_named(line, "max_hold", 0);
	if (!has(line, "norenew") && request.ttl_ns != LOCKSHM_FOREVER)
		request.flags |= LOCKSHM_AUTO_RENEW;
	request.flags |= has(line, "robust") ? LOCKSHM_ROBUST : 0;
	request.flags |= has(line, "global") ? LOCKSHM_GLOBAL : 0;
	request.redis_policy = policy(named(line, "redis_policy"));
	request.tag = named(line, "tag");
	request.report = &report;
	return request;
}

static void do_take(const struct line *line)
{
	struct lockshm_request request = request_of(line, line->words[2]);

	timeout_ns = request.timeout_ns;
	answer_code(lockshm_acquire(segment, &request, hold_of(line->words[1])));
}

static void do_damage(const struct line *line)
{
	struct lockshm_damage damage;
	int code = lockshm_damage(hold_of(line->words[1]), &damage);

	if (code != 0 || !damage.status) {
		code != 0 ? answer_code(code) : answer("none");
		return;
	}
	fprintf(out, "%s %d\n", damage.status == LOCKSHM_OWNER_DIED ? "died" : "expired", (int)damage.pid);
	fflush(out);
}

/* A call on a hold, by the first word of its line. */
static int on_hold(const struct line *line, lockshm_hold_t *hold)
{
	const char *verb = line->words[0];

	if (strcmp(verb, "release") == 0)
		return lockshm_release(hold, time_named(line, "cooldown", 0));
	if (strcmp(verb, "check") == 0)
		return lockshm_check(hold, NULL);
	if (strcmp(verb, "renew") == 0)
		return lockshm_renew(hold, line->n > 2 ? duration(line->words[2]) : LOCKSHM_SECONDS(30));
	if (strcmp(verb, "extend") == 0)
		return lockshm_extend(hold, duration(line->words[2]));
	if (strcmp(verb, "upgrade") == 0)
		return lockshm_upgrade(hold);
	return strcmp(verb, "downgrade") == 0 ? lockshm_downgrade(hold) : lockshm_acknowledge(hold);
}

/* Options by their names; a duration is seconds here. */
static void do_open(const struct line *line)
{
	struct lockshm_create_options options = LOCKSHM_CREATE_INIT;
	struct lockshm_option row = LOCKSHM_OPTION_INIT;
	char text[LOCKSHM_REDIS_MAX + 8];
	int code = 0;

	options.flags = LOCKSHM_CREATE_OR_OPEN;
	for (size_t i = 0; code == 0 && lockshm_create_option_at(i, &row) == 0; i++) {
		const char *value = named(line, row.name);

		snprintf(text, sizeof(text), "%s%s", value ? value : "", row.kind == LOCKSHM_OPTION_DURATION ? "s" : "");
		code = value ? lockshm_create_option(&options, row.name, text, &report.error) : 0;
	}
	answer_code(code ? code : lockshm_create(&segment, line->words[1], &options, &report.error));
}

/* The child goes on with the two named pipes of the line. */
static void do_fork(const struct line *line)
{
	pid_t pid = fork();

	if (pid != 0) {
		fprintf(out, "%d\n", (int)pid);
		fflush(out);
		return;
	}
	in = fopen(line->words[1], "r");
	out = fopen(line->words[2], "w");
	if (!in || !out)
		_exit(1);
	answer("agent c");
}

static void do_sleep(const struct line *line)
{
	int64_t ns = duration(line->words[1]);
	struct timespec left = { ns / 1000000000, ns % 1000000000 };

	nanosleep(&left, NULL);
	answer("ok");
}

static void do_token(const struct line *line)
{
	fprintf(out, "%llu\n", (unsigned long long)lockshm_token(hold_of(line->words[1])));
	fflush(out);
}

static const char *of_flag(unsigned flags, unsigned flag)
{
	return flags & flag ? "yes" : "no";
}

static void do_defaults(const struct line *line)
{
	const struct lockshm_request r = LOCKSHM_REQUEST_INIT;
	int code;

	if (strcmp(line->words[1], "take") == 0)
		fprintf(out, "timeout_ns=%g ttl_ns=%g max_hold_ns=%g tag=%s redis_policy=%d canceller=%s report=%s "
			"AUTO_RENEW=%s ROBUST=%s GLOBAL=%s BARGE=%s ONLY_IF_FREE_IN_TIME=%s",
			r.timeout_ns / 1e9, r.ttl_ns / 1e9, r.max_hold_ns / 1e9, r.tag ? "yes" : "none", r.redis_policy,
			r.canceller ? "yes" : "none", r.report ? "yes" : "none", of_flag(r.flags, LOCKSHM_AUTO_RENEW),
			of_flag(r.flags, LOCKSHM_ROBUST), of_flag(r.flags, LOCKSHM_GLOBAL), of_flag(r.flags, LOCKSHM_BARGE),
			of_flag(r.flags, LOCKSHM_ONLY_IF_FREE_IN_TIME));
	for (code = LOCKSHM_TIMEOUT; code >= LOCKSHM_BRIDGE && strcmp(line->words[1], "refusal") == 0; code--)
		if (code >= LOCKSHM_INVALID || code == LOCKSHM_NO_SEGMENT || code == LOCKSHM_PERMISSION || code == LOCKSHM_BRIDGE)
			fprintf(out, "%s=- ", lockshm_code_name(code));
	answer("");
}

static void do_message(const struct line *line)
{
	char text[LOCKSHM_EXPLAIN_MAX];

	(void)line;
	answer(lockshm_explain(&report, timeout_ns, text, sizeof(text)) == 0 ? text : "");
}

static void do_destroy(const struct line *line)
{
	answer_code(lockshm_destroy(line->words[1], &report.error));
}

static void act(const struct line *line)
{
	static const struct {
		const char *verb;
		int words;
		void (*run)(const struct line *line);
	} verbs[] = {
		{ "defaults", 2, do_defaults }, { "destroy", 2, do_destroy }, { "fork", 3, do_fork },	{ "message", 1, do_message },
		{ "open", 2, do_open },	      { "damage", 2, do_damage }, { "sleep", 2, do_sleep },
		{ "take", 3, do_take },	      { "token", 2, do_token },
	};
	size_t i;

	for (i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verbs[i].verb, line->words[0]) == 0 && line->n >= verbs[i].words) {
			verbs[i].run(line);
			return;
		}
	if (line->n < 2)
		answer("unknown");
	else
		answer_code(on_hold(line, hold_of(line->words[1])));
}

int main(void)
{
	struct line line;
	char *text = NULL;
	size_t size = 0;

	in = stdin;
	out = stdout;
	printf("agent c %s deadlock fork texts\n", lockshm_version());
	fflush(stdout);
	while (getline(&text, &size, in) > 0) {
		split(&line, text);
		if (line.n > 0)
			act(&line);
	}
	return 0;
}
