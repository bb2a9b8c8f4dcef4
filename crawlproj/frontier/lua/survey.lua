#!lua flags=no-writes
-- Tells how the crawl stands on one shard, in one call however many workers and hosts there are.
-- Changes nothing, not even the crawl's clock.
--
-- KEYS  as in _keys.lua
-- ARGV  1 1 to tell what the workers say of themselves, 0 not to
--       2 hosts to look at, about (Redis gives whole buckets); 0 for none
-- Reply {now in ms, by the crawl's clock
--        COUNTS as field, value, …
--        LAYERS as field, value, …
--        number of hosts
--        of each worker: name, when it counts as dead (ms), leases that it holds, what it says or ''
--        of some hosts: name, record, URLs in its queue; first those that wait longest, among them
--        groups of hosts, with a record of their own}
--include _keys.lua
--include _looking.lua
local most = tonumber(ARGV[2])
local workers = {}
local silent_at = redis.call('ZRANGE', WORKERS, 0, -1, 'WITHSCORES')
for i = 1, #silent_at, 2 do
  local name, n = silent_at[i], #workers
  workers[n + 1], workers[n + 2] = name, silent_at[i + 1]
  workers[n + 3] = redis.call('HLEN', LEASED .. name)
  workers[n + 4] = ARGV[1] == '1' and redis.call('HGET', ABOUT, name) or ''
end

local hosts, told = {}, {}
local function add_host(name, packed, is_host)
  if not packed or told[name] then return end
  local n = #hosts
  told[name] = true
  hosts[n + 1], hosts[n + 2], hosts[n + 3] = name, packed, is_host and count_queued(name, packed) or 0
end

if most > 0 then
  for _, name in ipairs(redis.call('ZRANGE', WAITING, -math.ceil(most / 10), -1)) do
    local is_host = name:find('://', 1, true) ~= nil
    add_host(name, redis.call('HGET', is_host and HOSTS or GROUPS, name), is_host)
  end
  local found = redis.call('HSCAN', HOSTS, '0', 'COUNT', most)[2]
  for i = 1, #found, 2 do add_host(found[i], found[i + 1], true) end
end

return {now, redis.call('HGETALL', COUNTS), redis.call('HGETALL', LAYERS), redis.call('HLEN', HOSTS),
        workers, hosts}
