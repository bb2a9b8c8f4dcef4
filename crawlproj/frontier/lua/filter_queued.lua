#!lua flags=allow-oom
-- Filters what is still queued or delayed when the crawl's page budget is used up, some hosts a
-- call.
--
-- ARGV  2 hosts to empty at most, 3 reason
-- Reply URLs that were filtered now; 0 when none is left within reach (a host whose requests
--       are out keeps its queue until they have ended)
--include _crawl.lua
--include _damage.lua
--include _hosts.lua
local most = tonumber(ARGV[2])
for _, packed in ipairs(redis.call('ZRANGE', DELAYED, 0, most - 1)) do
  redis.call('ZREM', DELAYED, packed)
  local name, level = read_url(packed)
  if name then
    reserve(name, level, -1)
    count('delayed', -1)
    count('filtered:' .. ARGV[3], 1)
  else
    count_corrupt()
  end
end
if damaged then
  write_off('delayed', redis.call('ZCARD', DELAYED))
  mend_reserved()
end

local function drop(name)
  most = most - 1
  drop_queue(name, load_host(name), ARGV[3])
end

for _, key in ipairs({READY, WAITING}) do
  for _, name in ipairs(redis.call('ZRANGE', key, 0, math.max(0, most - 1))) do
    if is_group(name) then
      load_group(name)
      for _, host in ipairs(redis.call('ZRANGE', LINE .. name, 0, math.max(0, most - 1))) do drop(host) end
    else
      drop(name)
    end
  end
end
save_hosts()
save_counts()
return moved['filtered:' .. ARGV[3]] or 0
