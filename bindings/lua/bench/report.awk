# SPDX-License-Identifier: MIT
# report.awk - samples of the conductor as a table in markdown
# A sample is: scenario, kind, value.  Variables: load, rounds, seconds, mode.

BEGIN { FS = "\t" }
$1 == "machine" { machine = $2; next }
$1 == "begin" { delete samples; delete count; next }
NF == 3 { count[$1, $2]++; samples[$1, $2, count[$1, $2]] = $3 + 0 }

# The share @q of the samples of a scenario that are not larger.
function quantile(scenario, kind, q,    n, i, j, value, sorted) {
	n = count[scenario, kind]
	if (!n)
		return -1
	for (i = 1; i <= n; i++) {
		value = samples[scenario, kind, i]
		for (j = i - 1; j > 0 && sorted[j] > value; j--)
			sorted[j + 1] = sorted[j]
		sorted[j + 1] = value
	}
	i = q * n
	return sorted[i > int(i) || i == 0 ? int(i) + 1 : i]
}
function shown(value) {
	if (value < 0)
		return "-"
	return value >= 100 ? sprintf("%.0f", value) : value >= 10 ? sprintf("%.1f", value) : sprintf("%.2f", value)
}
function with_thousands(text,    head) {
	if (text !~ /^[0-9]+$/ || length(text) < 4)
		return text
	head = substr(text, 1, length(text) - 3)
	return with_thousands(head) "," substr(text, length(text) - 2)
}
function figure(value) {
	return with_thousands(shown(value))
}
# better: 1 = less is better, -1 = more is
function ratio(theirs, ours, better) {
	if (theirs <= 0 || ours <= 0)
		return "-"
	return shown(better > 0 ? theirs / ours : ours / theirs) " x"
}
function row(text, scenario, q, better,    theirs, ours, fair) {
	theirs = quantile(scenario, "resty", q)
	ours = quantile(scenario, "ours", q)
	fair = quantile(scenario, "fair", q)
	printf "| %s | %s | %s | %s | %s | %s |\n", text, figure(theirs), figure(ours), figure(fair), \
		ratio(theirs, ours, better), ratio(theirs, fair, better)
}
function both(text, scenario, better) {
	row(text ", p50", scenario, 0.5, better)
	row(text ", max", scenario, 1, better)
}
function pair_row(text, kind,    value) {
	value = quantile("pair", kind, 0.5)
	if (value > 0)
		printf "| %s, ns | - | %s | - | - | - |\n", text, figure(value)
}
function main_table(    floor) {
	print "| | resty.lock | resty.lockshm | fair = true | gain | gain, fair |"
	print "|---|---:|---:|---:|---:|---:|"
	row("free pair lock(), unlock(), ns", "pair", 0.5, 1)
	row("new() and a free pair, ns", "pair-new", 0.5, 1)
	pair_row("free pair locks:exclusive(), hold:release()", "object")
	pair_row("the two C calls by bare FFI", "ffi")
	pair_row("the two C calls in a loop of C", "c")
	pair_row("two FFI calls that do nothing", "nothing")
	floor = quantile("pair", "c", 0.5) + quantile("pair", "nothing", 0.5)
	if (quantile("pair", "c", 0.5) > 0)
		printf "| free pair / (C loop + empty FFI calls) | %s | %s | %s | - | - |\n", ratio(quantile("pair", "resty", 0.5), floor, 1), \
			ratio(quantile("pair", "ours", 0.5), floor, 1), ratio(quantile("pair", "fair", 0.5), floor, 1)
	both("hand-over between workers, held 0.7 ms, us", "hand-over-0.7", 1)
	both("hand-over, held 20 ms, us", "hand-over-20", 1)
	both("hand-over, held 200 ms, us", "hand-over-200", 1)
	both("holder (exptime 0.9 s) killed, until the waiter runs, ms", "killed", 1)
	row("100 requests of one worker at once for one value, filled in 20 ms: until all have it, ms", "cache-miss", 0.5, 1)
	row("100 requests of one worker at once, each holds 1 ms, timeout 1 s: granted", "crowd", 0.5, -1)
	row("hot lock held 1 us, 2 workers, thousand pairs/s", "hot2", 0.5, -1)
	row("hot lock, 2 workers, longest lock() of a round, ms", "hot2-longest", 0.5, 1)
	row("hot lock held 1 us, 4 workers, thousand pairs/s", "hot4", 0.5, -1)
	row("hot lock, 4 workers, longest lock() of a round, ms", "hot4-longest", 0.5, 1)
}
function ticker_row(waits) {
	row("waits: " with_thousands(waits) ", while they wait, ms", "wait" waits, 0.5, 1)
	row("waits: " with_thousands(waits) ", while each is granted in turn, ms", "grant" waits, 0.5, 1)
}
END {
	printf "Machine: %s; load before the run %s; %d rounds, %d s.\n", machine, load, rounds, seconds
	print ""
	if (mode == "ticker") {
		print "| longest delay of a 1 ms timer | resty.lock | resty.lockshm | fair = true | gain | gain, fair |"
		print "|---|---:|---:|---:|---:|---:|"
		ticker_row(1)
		ticker_row(100)
		ticker_row(10000)
	} else {
		main_table()
	}
	print "\nMedians of the rounds, except where p50 and max of all samples are given; gain: how many times better than resty.lock."
	if (!count["pair", "resty"] && !count["wait1", "resty"])
		print "\nresty.lock was left out: RESTY_LOCK_DIR is not set."
	if (mode != "ticker" && !count["pair", "c"])
		print "\nThe loop of C was left out: no C compiler."
}
