#!lua flags=allow-oom
-- Sets the state that all workers obey: pause, resume, stop. A stop is counted as a dismissal, in
-- whatever state the crawl is: workers that wait for it to begin, or for the next one, go by that.
-- They may not look before the crawl has been stopped by the others, and must not resume it then.
--
-- ARGV  2 state wanted: running, paused, stopping (stopped, if no worker is alive)
--       3 states from which it may be reached, separated by spaces
-- Reply the state afterwards
--include _crawl.lua
--include _elapsed.lua
local wanted = ARGV[2]
if wanted == 'stopping' then redis.call('HINCRBY', META, 'dismissals', 1) end
if wanted == 'stopping' and not ALIVE then wanted = 'stopped' end
if not (' ' .. ARGV[3] .. ' '):find(' ' .. STATE .. ' ', 1, true) then return STATE end
count_time(false)
if is_over() then redis.call('HSET', META, 'ran_until_ms', NOW) end
redis.call('HSET', META, 'state', wanted)
return wanted
