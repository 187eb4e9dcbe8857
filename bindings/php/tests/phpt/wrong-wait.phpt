--TEST--
lockshm.session_wait: a wrong value in php.ini is a warning at the start, and the default stays
--EXTENSIONS--
lockshm
--INI--
lockshm.session_wait=-3
--FILE--
<?php
var_dump(ini_get('lockshm.session_wait'));
foreach (['NAN', 'INF', '', '5s', '86401', '-0.5'] as $wrong) {
    var_dump(ini_set('lockshm.session_wait', $wrong), ini_get('lockshm.session_wait'));
}
var_dump(ini_set('lockshm.session_wait', '0.5'), ini_get('lockshm.session_wait'));
?>
--EXPECTF--
Warning: lockshm.session_wait must be between 0 and 86400 seconds, "-3" given; it stays 20 in Unknown on line 0
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "NAN" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "INF" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "5s" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "86401" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"

Warning: lockshm.session_wait must be between 0 and 86400 seconds, "-0.5" given; it stays 20 in %s on line %d
bool(false)
string(2) "20"
string(2) "20"
string(3) "0.5"
