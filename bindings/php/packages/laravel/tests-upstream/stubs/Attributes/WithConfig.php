<?php
// SPDX-License-Identifier: MIT

declare(strict_types=1);

namespace Orchestra\Testbench\Attributes;

#[\Attribute(\Attribute::TARGET_CLASS | \Attribute::TARGET_METHOD)]
final class WithConfig
{
    public function __construct(public readonly string $key, public readonly mixed $value)
    {
    }
}
