<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Symfony\Tests;

use Lockshm\Testing\Readme;
use Lockshm\Testing\Script;
use PHPUnit\Framework\TestCase;

final class ReadmeTest extends TestCase
{
    public function testTheExamplePrintsWhatItSays(): void
    {
        [$code, $text] = Readme::example(__DIR__.'/../README.md');
        $this->assertSame($text, Script::run(__DIR__.'/bootstrap.php', $code));
    }
}
