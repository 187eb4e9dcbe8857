<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

use Lockshm\Locks;
use Lockshm\SegmentException;

/** Segments with the pid of the test in their names, also in its children; removed when the test's process ends. */
final class Segment
{
    private static int $pid = 0;

    /** @var array<string, true> */
    private static array $names = [];

    /** @internal Once, in the process of the test. */
    public static function begin(): void
    {
        self::$pid = getmypid();
        register_shutdown_function([self::class, 'removeAll']);
        self::name();
    }

    /** The name of a segment of this test process, for $part. */
    public static function name(string $part = 'test'): string
    {
        $name = 'phpunit-'.self::$pid.'-'.$part;
        self::$names[$name] = true;

        return $name;
    }

    public static function open(string $part = 'test'): Locks
    {
        return Locks::open(self::name($part));
    }

    /** @internal */
    public static function removeAll(): void
    {
        if (getmypid() !== self::$pid) {
            return;
        }
        foreach (self::$names as $name => $true) {
            try {
                Locks::destroy($name);
            } catch (SegmentException) {
                // It was never opened.
            }
        }
    }
}
