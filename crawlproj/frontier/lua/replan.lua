#!lua flags=allow-oom
-- Changes the plan of a crawl that goes on: its budgets, depth, pace or time. The first shard comes
-- last, for its plan is the crawl's: what a crash leaves half changed is changed again by whoever
-- asks for it again. Workers hear with their heartbeat that something has changed.
--
-- ARGV  2 the plan that is changed, as it stands in META, or '' for any; 3 the plan that it becomes
--       4 msgpack map of META fields that go with it (per_host, delay_ms, …), 5 pages more
--       6 ms from now until the crawl stops, 0 for no deadline, '' to leave it as it is
-- Reply 1, or 0 if the plan is another by now: nothing was done
--include _crawl.lua
local plan = redis.call('HGET', META, 'plan')
if plan == ARGV[3] then return 1 end
if ARGV[2] ~= '' and plan ~= ARGV[2] then return 0 end
for field, value in pairs(cmsgpack.unpack(ARGV[4])) do redis.call('HSET', META, field, value) end
if tonumber(ARGV[5]) > 0 then redis.call('HINCRBY', META, 'pages', ARGV[5]) end
if ARGV[6] ~= '' then
  local lasts_ms = tonumber(ARGV[6])
  redis.call('HSET', META, 'deadline_ms', lasts_ms > 0 and NOW + lasts_ms or 0)
end
redis.call('HSET', META, 'plan', ARGV[3])
redis.call('HINCRBY', META, 'paces', 1)
return 1
