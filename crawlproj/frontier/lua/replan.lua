#!lua flags=allow-oom
-- Changes the plan of a crawl that goes on: its budgets, depth, pace or time. The first shard is
-- changed last, since its plan is the crawl's: after a crash in between, the same command changes
-- the rest. Workers are told by the reply to their heartbeat that something has changed.
--
-- ARGV  2 the plan that is changed, as it stands in META, or '' for any; 3 the plan that it becomes
--       4 msgpack map of META fields that go with it (per_host, delay_ms, …), 5 pages more
--       6 ms from now until the crawl stops, 0 for no deadline, '' to leave it as it is
--       7 pages that the shard has of the budget from now on, 'used' for as many as are done or
--         leased, -1 for no budget, '' to leave them as they are
-- Reply pages that the shard has then, or nil if the plan is another by now: nothing was done
--include _crawl.lua
local plan = redis.call('HGET', META, 'plan')
if plan == ARGV[3] then return PAGES end
if ARGV[2] ~= '' and plan ~= ARGV[2] then return nil end
for field, value in pairs(cmsgpack.unpack(ARGV[4])) do redis.call('HSET', META, field, value) end
local pages = ARGV[7] == '' and PAGES or tonumber(ARGV[7])
if ARGV[7] == 'used' then
  local used = redis.call('HMGET', COUNTS, 'done', 'leased', 'revisits')
  pages = tonumber(used[1] or 0) + tonumber(used[2] or 0) + tonumber(used[3] or 0)
end
pages = pages + tonumber(ARGV[5])
redis.call('HSET', META, 'pages', pages)
if ARGV[6] ~= '' then
  local lasts_ms = tonumber(ARGV[6])
  redis.call('HSET', META, 'deadline_ms', lasts_ms > 0 and NOW + lasts_ms or 0)
end
redis.call('HSET', META, 'plan', ARGV[3])
redis.call('HINCRBY', META, 'paces', 1)
return pages
