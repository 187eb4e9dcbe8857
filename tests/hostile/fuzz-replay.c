/* SPDX-License-Identifier: MIT */
/*
 * fuzz-replay.c - the fuzzer's programs without a fuzzer
 *
 *   fuzz-replay                       what make check runs: the corpus, then some seconds of random programs
 *   fuzz-replay FILE...               those programs, texts (*.txt) or the fuzzer's own files
 *   fuzz-replay --random SECONDS [SEED]
 *   fuzz-replay --seed SEED           show and run one program of --random
 *   fuzz-replay --print FILE          the text of one of the fuzzer's files
 *   fuzz-replay --encode DIRECTORY    the corpus, and the scene as a raw file, as the fuzzer's files
 *   fuzz-replay --write DIRECTORY SEED COUNT      files of these seeds, before the first call
 *
 * Every program runs in a child process with a time limit.  A program that ends its child is a failure.
 */
#define _GNU_SOURCE
#include "fuzz.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX (256 * 1024)
#define LIMIT_SECONDS 20    /* one program; a loaded machine */
#define CHECK_SECONDS 3	    /* of random programs in make check */
#define PROGRAMS_PER_CHILD 500

static unsigned char input[INPUT_MAX];

/* ---------------------------------------------------------------- where programs come from */

static bool is_text(const char *path)
{
	size_t len = strlen(path);

	return len > 4 && strcmp(path + len - 4, ".txt") == 0;
}

static size_t read_program(const char *path)
{
	FILE *f = fopen(path, "re");
	size_t size;

	if (!f) {
		perror(path);
		exit(99);
	}
	size = is_text(path) ? fuzz_parse(f, path, input, INPUT_MAX) : fread(input, 1, INPUT_MAX, f);
	fclose(f);
	if (size == 0)
		exit(99);
	return size;
}

static size_t random_program(uint64_t seed)
{
	size_t size = 0;
	uint64_t step;

	for (step = 0; step <= seed % 8; step++)
		size = fuzz_mutate(input, size, INPUT_MAX, seed * 8 + step);
	return size;
}

static const char *corpus_directory(void)
{
	static char path[4096];
	const char *srcdir = getenv("srcdir");

	snprintf(path, sizeof(path), "%s/tests/hostile/corpus", srcdir ? srcdir : ".");
	return path;
}

/* ---------------------------------------------------------------- running them */

static void become_victim(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGALRM, SIG_DFL);
}

static const char *failure_of(int status)
{
	static char text[64];

	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), "%s", WTERMSIG(status) == SIGALRM ? "took too long" : strsignal(WTERMSIG(status)));
	else
		snprintf(text, sizeof(text), "exit status %d", WEXITSTATUS(status));
	return text;
}

static bool run_one(const char *what, size_t size)
{
	const char *bad;
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0) {
		become_victim();
		alarm(LIMIT_SECONDS);
		fuzz_run(input, size);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(99);
	bad = failure_of(status);
	if (bad)
		printf("FAIL %s: %s\n", what, bad);
	return !bad;
}

static unsigned run_directory(const char *path, unsigned *n)
{
	unsigned failed = 0;
	char file[8192];
	struct dirent *entry;
	DIR *dir = opendir(path);

	if (!dir) {
		perror(path);
		exit(99);
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		failed += !run_one(file, read_program(file));
		(*n)++;
	}
	closedir(dir);
	return failed;
}

/* Shared with the children: the seed each is at. */
static volatile uint64_t *at_seed;

static void run_seeds(uint64_t seed, int64_t until)
{
	unsigned i;
	size_t size;

	become_victim();
	for (i = 0; i < PROGRAMS_PER_CHILD && time(NULL) < until; i++) {
		*at_seed = seed + i;
		alarm(LIMIT_SECONDS);
		size = random_program(seed + i);
		fuzz_run(input, size);
	}
	*at_seed = seed + i;
	_exit(0);
}

static unsigned run_random(int64_t seconds, uint64_t seed)
{
	int64_t until = time(NULL) + seconds;
	unsigned failed = 0;
	uint64_t first = seed;
	int status;

	at_seed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (at_seed == MAP_FAILED)
		exit(99);
	printf("random programs: seeds from %llu\n", (unsigned long long)seed);
	while (time(NULL) < until && failed < 10) {
		const char *bad;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (pid == 0)
			run_seeds(seed, until);
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			exit(99);
		bad = failure_of(status);
		if (bad) {
			printf("FAIL --seed %llu: %s\n", (unsigned long long)*at_seed, bad);
			failed++;
		}
		seed = *at_seed + (bad != NULL);
	}
	printf("%llu random programs, %u failed\n", (unsigned long long)(seed - first), failed);
	return failed;
}

/* ---------------------------------------------------------------- for the fuzzer */

static void write_input(const char *directory, const char *name, size_t size)
{
	char path[8192];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	f = fopen(path, "we");
	if (!f || fwrite(input, 1, size, f) != size || fclose(f) != 0) {
		perror(path);
		exit(99);
	}
}

static int encode(const char *directory)
{
	char file[8192];
	struct dirent *entry;
	DIR *dir = opendir(corpus_directory());

	while (dir && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", corpus_directory(), entry->d_name);
		write_input(directory, entry->d_name, read_program(file));
	}
	if (dir)
		closedir(dir);
	input[0] = START_RAW;
	memcpy(input + 1, scene.image, scene.size);
	write_input(directory, "raw", 1 + scene.size);
	return 0;
}

static int write_files(const char *directory, uint64_t seed, uint64_t count)
{
	char path[4096];
	uint64_t i;

	for (i = seed; i < seed + count; i++) {
		snprintf(path, sizeof(path), "%s/%llu", directory, (unsigned long long)i);
		if (!fuzz_write_file(input, random_program(i), path)) {
			perror(path);
			return 99;
		}
	}
	return 0;
}

/* ---------------------------------------------------------------- main */

static uint64_t number(const char *text)
{
	return strtoull(text, NULL, 10);
}

static int one_seed(uint64_t seed)
{
	size_t size = random_program(seed);

	fuzz_print(stdout, input, size);
	return !run_one("this program", size);
}

static int check(void)
{
	unsigned n = 0, failed = run_directory(corpus_directory(), &n);

	printf("%u programs of the corpus, %u failed\n", n, failed);
	failed += run_random(CHECK_SECONDS, (uint64_t)time(NULL) % 1000000 * 1000);
	return failed != 0;
}

static int run_files(int n, char **files)
{
	int failed = 0;

	while (n-- > 0) {
		failed += !run_one(*files, read_program(*files));
		files++;
	}
	return failed != 0;
}

int main(int argc, char **argv)
{
	const char *option = argc > 1 ? argv[1] : "";

	snprintf(fuzz_name, sizeof(fuzz_name), "/lockshm-fuzz-%d", (int)getpid());
	if (argc == 3 && strcmp(option, "--print") == 0)
		return !fuzz_print(stdout, input, read_program(argv[2]));
	scene_make();
	if (argc == 1)
		return check();
	if (argc >= 3 && strcmp(option, "--random") == 0)
		return run_random((int64_t)number(argv[2]), argc > 3 ? number(argv[3]) : (uint64_t)time(NULL) * 1000) != 0;
	if (argc == 3 && strcmp(option, "--seed") == 0)
		return one_seed(number(argv[2]));
	if (argc == 3 && strcmp(option, "--encode") == 0)
		return encode(argv[2]);
	if (argc == 5 && strcmp(option, "--write") == 0)
		return write_files(argv[2], number(argv[3]), number(argv[4]));
	return run_files(argc - 1, argv + 1);
}
