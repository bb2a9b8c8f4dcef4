#!lua flags=allow-oom
-- A worker's heartbeat: renews all that it holds, at once.
--
-- ARGV  2 worker, 3 ms until it counts as dead unless it renews again
--       4 JSON it tells about itself
-- Reply {1 if it was known until now, 0 if it is new or had been declared dead; state; changes
--        of pace so far, see change_pace.lua; leases that it holds; 1 if it is to leave; tokens of those
--        leases whose URL another worker has settled, see _copies.lua}
--include _crawl.lua
--include _elapsed.lua
--include _enrolling.lua
--include _history.lua
local added = enrol(ARGV[2], tonumber(ARGV[3]), ARGV[4])
if not is_over() then record_history(NOW) end
local outrun = {}
if CRAWL[20] then
  local held = redis.call('HGETALL', LEASED .. ARGV[2])
  for i = 1, #held, 2 do
    local ok, _, _, _, _, _, _, twin = pcall(cmsgpack.unpack_limit, held[i + 1], 6)
    if ok and twin == '' then outrun[#outrun + 1] = tonumber(held[i]) end
  end
end
return {1 - added, STATE, tonumber(redis.call('HGET', META, 'paces') or 0),
        redis.call('HLEN', LEASED .. ARGV[2]), redis.call('HEXISTS', META, 'drain:' .. ARGV[2]), outrun}
