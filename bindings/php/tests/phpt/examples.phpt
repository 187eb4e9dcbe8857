--TEST--
the examples of README.md, MIGRATING.md and the README of the whole run, and do what they say
--EXTENSIONS--
lockshm
posix
pcntl
--SKIPIF--
<?php getenv('LOCKSHM_PHP_SOURCE') || die('skip for the source tree'); ?>
--FILE--
<?php
require __DIR__ . '/support.inc';
$locks = segment();
$source = getenv('LOCKSHM_PHP_SOURCE');

/** The examples of $file that use the class; 'shop' is this test's segment, or $other. */
function examples(string $file, string $segment): array
{
    preg_match_all('~^```php\n(.*?)^```$~ms', file_get_contents($file), $blocks);
    $uses = array_filter($blocks[1], fn($code) => str_contains($code, 'Locks::open'));
    return array_map(fn($code) => strtr($code, ["'shop'" => "'$segment'", '<?php' => '']), array_values($uses));
}

/** In a folder of its own, since some write files; "use" is of a file. */
function run(string $code): void
{
    mkdir($folder = __DIR__ . '/examples-' . getmypid());
    file_put_contents("$folder/example.php", "<?php use Lockshm\\Locks;\n" . str_replace('use Lockshm\Locks;', '', $code));
    chdir($folder);
    (static fn() => require "$folder/example.php")();
    array_map('unlink', glob("$folder/*"));
    rmdir($folder);
    chdir(__DIR__);
}

echo "-- README.md\n";
[$first, $across] = examples("$source/README.md", $locks->name());
run($first);
echo "-- README.md, across hosts, and no bridge runs\n";
run(strtr($across, [$locks->name() => $locks->name() . '-hosts']));
Lockshm\Locks::destroy($locks->name() . '-hosts');
echo "-- MIGRATING.md\n";
[$flock] = examples("$source/MIGRATING.md", $locks->name());
run($flock);
echo "-- the README of the whole\n";
[$whole] = examples("$source/../../README.md", $locks->name());
run($whole);
var_dump($locks->isLocked('report'));
?>
--EXPECTF--
-- README.md
<h1>Hello</h1>
mails sent
-- README.md, across hosts, and no bridge runs
'report': no bridge to Redis runs: start one with "lockshm-bridge /%s-hosts"
-- MIGRATING.md
-- the README of the whole
bool(false)
