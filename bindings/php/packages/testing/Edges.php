<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

/** What a call does, as text, so that what an original does can be compared with what ours does. */
final class Edges
{
    /**
     * The value of $call(), or the class of what it throws: that of a framework by its name, another one as it is.
     */
    public static function outcome(\Closure $call): string
    {
        try {
            return json_encode($call(), \JSON_THROW_ON_ERROR | \JSON_PARTIAL_OUTPUT_ON_ERROR);
        } catch (\Throwable $error) {
            return 'throws '.$error::class;
        }
    }

    /** @param \Closure(): bool $condition true within a minute */
    public static function await(\Closure $condition): void
    {
        for ($until = hrtime(true) + 60_000_000_000; !$condition(); usleep(1000)) {
            if (hrtime(true) > $until) {
                throw new \RuntimeException('not within a minute');
            }
        }
    }
}
