/* SPDX-License-Identifier: MIT */
/* program.c - programs of other libraries that use the same lock; see redis-support/foreign.h */
#define _GNU_SOURCE
#include "foreign.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "redis.h"

static FILE *program;

/* Debian's module belongs to Debian's Python, which need not be the first in the path. */
#define PYTHON "python=$(command -v python3); \"$python\" -c 'import redis' 2>/dev/null || python=/usr/bin/python3; "

const struct foreign foreign_redis_py = {
	"redis-py", PYTHON "\"$python\" -c 'import redis' 2>/dev/null", PYTHON "exec \"$python\" \"$@\"",
	"foreign-redis-py.py", "Python has no module redis (python3-redis)",
};

const struct foreign foreign_redlock = {
	"redlock", "node -e 'require(\"redlock\"), require(\"ioredis\")' 2>/dev/null", "exec node \"$@\"",
	"foreign-redlock.js",
	"node does not find redlock (version 4) and ioredis; NODE_PATH may name where npm put them",
};

bool foreign_is_there(const struct foreign *f)
{
	return system(f->probe) == 0;
}

static void become(const struct foreign *f, int fd)
{
	const char *srcdir = getenv("srcdir");
	char path[4096];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(fd, 0);
	dup2(fd, 1);
	snprintf(path, sizeof(path), "%s/tests/redis-support/%s", srcdir ? srcdir : ".", f->script);
	execl("/bin/sh", "sh", "-c", f->run, "sh", path, redis->socket, "lock", (char *)NULL);
	_exit(127);
}

void foreign_start(const struct foreign *f)
{
	int sv[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	if (fork() == 0)
		become(f, sv[1]);
	close(sv[1]);
	program = fdopen(sv[0], "r+");
	setvbuf(program, NULL, _IONBF, 0);
}

void foreign_end(void)
{
	fclose(program);
}

void foreign_tell(const char *line)
{
	fprintf(program, "%s\n", line);
	fflush(program);
}

bool foreign_hear(void)
{
	char answer[16] = "";

	ck_assert_msg(fgets(answer, sizeof(answer), program) != NULL, "the other program ended");
	ck_assert(strcmp(answer, "yes\n") == 0 || strcmp(answer, "no\n") == 0);
	return answer[0] == 'y';
}

bool foreign_ask(const char *line)
{
	foreign_tell(line);
	return foreign_hear();
}
