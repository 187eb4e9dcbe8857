# SPDX-License-Identifier: MIT
# The fuzzer, its corpus, and scribbling on a living segment.
tests_of_units += %D%/test-hostile %D%/test-loop-trampled
tests_of_programs += %D%/fuzz-replay %D%/scribble
tests_of_builds += %D%/fuzz.sh
fuzz_sources = \
	%D%/fuzz-guard.c \
	%D%/fuzz-loop.c \
	%D%/fuzz-mutate.c \
	%D%/fuzz-program.c \
	%D%/fuzz-scene.c \
	%D%/fuzz-text.c \
	%D%/fuzz.h \
	$(end)
fuzz_link_flags = $(AM_LDFLAGS) -Wl,--wrap=mmap -Wl,--wrap=munmap -Wl,--wrap=nanosleep
%C%_fuzz_replay_SOURCES = %D%/fuzz-replay.c $(fuzz_sources)
%C%_fuzz_replay_LDADD = liblockshm-internal.la
%C%_fuzz_replay_LDFLAGS = $(fuzz_link_flags)
# It needs libFuzzer, so only fuzz.sh makes it.
EXTRA_PROGRAMS += %D%/fuzz-segment
%C%_fuzz_segment_SOURCES = %D%/fuzz-segment.c $(fuzz_sources)
%C%_fuzz_segment_LDADD = liblockshm-internal.la
%C%_fuzz_segment_LDFLAGS = $(fuzz_link_flags) -fsanitize=fuzzer
%C%_scribble_SOURCES = %D%/scribble-loop.c %D%/scribble-loop.h %D%/scribble.c
%C%_scribble_LDADD = liblockshm.la $(JEMALLOC_LIBS)
EXTRA_DIST += %D%/corpus
