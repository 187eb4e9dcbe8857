<?php
// SPDX-License-Identifier: MIT
// Loads symfony/lock from SYMFONY_LOCK_DIR, else from vendor/, else from Debian's php-symfony-lock.

declare(strict_types=1);

use function Lockshm\Testing\load;

error_reporting(E_ALL & ~E_DEPRECATED);
require_once __DIR__.'/../../testing/autoload.php';
$copy = getenv('SYMFONY_LOCK_DIR');
if (is_string($copy) && '' !== $copy) {
    load('Symfony\\Component\\Lock\\', $copy);
    if (stream_resolve_include_path('Psr/Log/autoload.php')) {
        require_once 'Psr/Log/autoload.php';
    }
} elseif (is_file(__DIR__.'/../vendor/autoload.php')) {
    require_once __DIR__.'/../vendor/autoload.php';
} else {
    require_once 'Symfony/Component/Lock/autoload.php';
}
load('Lockshm\\Symfony\\Tests\\', __DIR__);
load('Lockshm\\Symfony\\', __DIR__.'/../src');
