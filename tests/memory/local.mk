# SPDX-License-Identifier: MIT
# Fences: the shapes against the models of machines, and litmus tests on this one.
tests_of_programs += %D%/litmus %D%/shapes
%C%_litmus_SOURCES = %D%/litmus-futex.c %D%/litmus.c %D%/litmus.h
%C%_litmus_LDADD =
%C%_shapes_SOURCES = %D%/shapes-models.c %D%/shapes.c %D%/shapes.h
%C%_shapes_LDADD =
