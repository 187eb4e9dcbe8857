<?php
// SPDX-License-Identifier: MIT
// Stands in for Nextcloud's exception where there is no Nextcloud.

declare(strict_types=1);

namespace OCP\Lock;

class LockedException extends \Exception
{
    public function __construct(
        private string $path,
        ?\Exception $previous = null,
        private ?string $existingLock = null,
        ?string $readablePath = null
    ) {
        parent::__construct(($readablePath ?? $path).': '.$existingLock, 0, $previous);
    }

    public function getPath(): string
    {
        return $this->path;
    }

    public function getExistingLock(): ?string
    {
        return $this->existingLock;
    }
}
