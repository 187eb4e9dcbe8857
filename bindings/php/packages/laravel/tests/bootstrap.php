<?php
// SPDX-License-Identifier: MIT
// Loads Laravel from LARAVEL_DIR (a checkout of laravel/framework; its dependencies from its vendor/, else Debian's),
// else from vendor/, else from Debian's php-laravel-framework.

declare(strict_types=1);

use function Lockshm\Testing\load;

error_reporting(E_ALL & ~E_DEPRECATED);
require_once __DIR__.'/../../testing/autoload.php';
$copy = getenv('LARAVEL_DIR');
if (is_string($copy) && '' !== $copy) {
    if (is_file("$copy/vendor/autoload.php")) {
        require_once "$copy/vendor/autoload.php";
    } else {
        foreach (['Macroable', 'Collections', 'Conditionable', 'Reflection'] as $part) {
            load('Illuminate\\Support\\', "$copy/src/Illuminate/$part");
        }
        load('Illuminate\\', "$copy/src/Illuminate");
        foreach (['Collections', 'Reflection', 'Support'] as $part) {
            foreach (['functions', 'helpers'] as $file) {
                if (is_file("$copy/src/Illuminate/$part/$file.php")) {
                    require_once "$copy/src/Illuminate/$part/$file.php";
                }
            }
        }
        require_once __DIR__.'/polyfill.php';
        require_once 'Carbon/autoload.php';
        require_once 'Psr/Container/autoload.php';
        require_once 'Psr/SimpleCache/autoload.php';
    }
} elseif (is_file(__DIR__.'/../vendor/autoload.php')) {
    require_once __DIR__.'/../vendor/autoload.php';
} else {
    require_once 'Illuminate/Cache/autoload.php';
    require_once 'Illuminate/Config/autoload.php';
    require_once 'Illuminate/Container/autoload.php';
    require_once 'Illuminate/Filesystem/autoload.php';
    require_once 'Illuminate/Queue/autoload.php';
    require_once 'Illuminate/Console/autoload.php';
    if (stream_resolve_include_path('Illuminate/Redis/autoload.php')) {
        require_once 'Illuminate/Redis/autoload.php';
    }
}
load('Lockshm\\Laravel\\Tests\\', __DIR__);
load('Lockshm\\Laravel\\', __DIR__.'/../src');
