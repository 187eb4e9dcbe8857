<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Testing;

/** A PHP program of its own: a whole request, with its end. */
final class Script
{
    /** Runs $code with this process's extension and autoloader $bootstrap to its end, and returns what it printed. */
    public static function run(string $bootstrap, string $code, int $expectedStatus = 0): string
    {
        $extension = getenv('LOCKSHM_EXTENSION');
        $command = [PHP_BINARY, '-d', 'error_reporting=E_ALL & ~E_DEPRECATED', '-d', 'display_errors=stderr'];
        if (false !== $extension && '' !== $extension) {
            array_push($command, '-d', 'extension='.$extension);
        }
        array_push($command, '-r', 'require '.var_export($bootstrap, true).';'.$code);
        $process = proc_open($command, [['file', '/dev/null', 'r'], ['pipe', 'w'], ['pipe', 'w']], $pipes);
        $output = stream_get_contents($pipes[1]);
        $errors = stream_get_contents($pipes[2]);
        $status = proc_close($process);
        if ($status !== $expectedStatus) {
            throw new \RuntimeException("A script ended with $status: $output$errors");
        }

        return $output;
    }
}
