<?php
// SPDX-License-Identifier: MIT
// What the tests of the packages share: class loading without Composer, segments of their own, child processes.

declare(strict_types=1);

namespace Lockshm\Testing;

require_once __DIR__.'/Child.php';
require_once __DIR__.'/Edges.php';
require_once __DIR__.'/Hosts.php';
require_once __DIR__.'/Readme.php';
require_once __DIR__.'/Script.php';
require_once __DIR__.'/Segment.php';

if (!\extension_loaded('lockshm')) {
    fwrite(STDERR, "The extension lockshm is not loaded: php -d extension=/path/of/lockshm.so\n");
    exit(2);
}

Segment::begin();

/** Loads classes of $namespace from files below $directory, as PSR-4 has it; before other loaders if $first. */
function load(string $namespace, string $directory, bool $first = false): void
{
    spl_autoload_register(static function (string $class) use ($namespace, $directory): void {
        if (str_starts_with($class, $namespace)) {
            $file = $directory.'/'.strtr(substr($class, \strlen($namespace)), '\\', '/').'.php';
            if (is_file($file)) {
                require_once $file;
            }
        }
    }, true, $first);
}
