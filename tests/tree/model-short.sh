#!/bin/sh
# SPDX-License-Identifier: MIT
#
# model-short.sh - the rows of the protocol's models that take seconds; make check-model runs all
exec "${srcdir:-.}/model/run.sh" --short
