/* SPDX-License-Identifier: MIT */
/*
 * fuzz-segment.c - hostile segments, for libFuzzer
 *
 * Built and run by `make fuzz`, with the sanitizers; needs clang and its run-time library (Debian: clang-14,
 * libclang-rt-14-dev).  What it finds is made readable by `fuzz-replay --print FILE` and kept in tests/hostile/corpus/.
 */
#include "fuzz.h"

#include <unistd.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	snprintf(fuzz_name, sizeof(fuzz_name), "/lockshm-fuzz-%d", (int)getpid());
	scene_make();
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	/* Files without any meaning, and now and then the fuzzer's own way. */
	if (size > 0 && (seed % 8 == 0 || ((data[0] & START_MASK) == START_RAW && seed % 64)))
		return LLVMFuzzerMutate(data, size, max);
	return fuzz_mutate(data, size, max, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_run(data, size);
	return 0;
}
