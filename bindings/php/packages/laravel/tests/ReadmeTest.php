<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Lockshm\Laravel\Tests;

use Lockshm\Testing\Readme;
use Lockshm\Testing\Script;
use Lockshm\Testing\Segment;
use PHPUnit\Framework\TestCase;

final class ReadmeTest extends TestCase
{
    public function testTheExamplePrintsWhatItSays(): void
    {
        [$config] = Readme::example(__DIR__.'/../README.md');
        [$code, $text] = Readme::example(__DIR__.'/../README.md', 1);
        $config = '$cache = ['.strtr($config, ["'redis'" => "'array'"]).']];';
        $start = '$app = \\'.Application::class.'::start($cache["stores"]);'
            .'\Illuminate\Support\Facades\Facade::setFacadeApplication($app);';
        $this->assertSame($text, Script::run(__DIR__.'/bootstrap.php', $config.$start.$code));
        $this->assertFalse(Segment::open('readme')->isLocked('app_nightly'));
    }
}
