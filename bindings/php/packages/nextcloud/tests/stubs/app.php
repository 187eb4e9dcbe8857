<?php
// SPDX-License-Identifier: MIT
// Stands in for as much of Nextcloud as the app uses, where there is no Nextcloud.

declare(strict_types=1);

namespace Psr\Container {
    if (!interface_exists(ContainerInterface::class)) {
        interface ContainerInterface
        {
            public function get(string $id);

            public function has(string $id);
        }
    }
}

namespace OCP {
    class IConfig
    {
        public function __construct(private array $values)
        {
        }

        public function getSystemValue(string $key, mixed $default = ''): mixed
        {
            return $this->values[$key] ?? $default;
        }

        public function getSystemValueString(string $key, string $default = ''): string
        {
            return $this->values[$key] ?? $default;
        }

        public function getSystemValueInt(string $key, int $default = 0): int
        {
            return $this->values[$key] ?? $default;
        }

        public function getSystemValueBool(string $key, bool $default = false): bool
        {
            return $this->values[$key] ?? $default;
        }
    }
}

namespace OCP\AppFramework {
    class App
    {
        public function __construct(string $appName, array $urlParams = [])
        {
        }
    }
}

namespace OCP\AppFramework\Bootstrap {
    interface IBootContext
    {
    }

    interface IRegistrationContext
    {
    }

    interface IBootstrap
    {
        public function register(IRegistrationContext $context): void;

        public function boot(IBootContext $context): void;
    }
}

namespace {
    final class OC
    {
        public static $server;
    }
}
