<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

use function Lockshm\Testing\load;

require_once __DIR__.'/../tests/bootstrap.php';
load('Symfony\\Component\\Lock\\Tests\\', getenv('SYMFONY_LOCK_DIR').'/Tests');
// Until 6.4 the class had another name.
$test = 'Symfony\\Component\\Lock\\Tests\\Store\\AbstractStoreTest';
if (!class_exists($test.'Case')) {
    class_alias($test, $test.'Case');
}
