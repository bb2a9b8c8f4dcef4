#!lua flags=allow-oom
-- Puts a worker among those that are alive, unless another of its name is: of two that come at the same
-- moment one is first. Who is alive is asked for its name no more.
--
-- ARGV  2 worker, 3 ms until it counts as dead unless it renews, 4 JSON it tells about itself
--       5 what the marked names of all begin with that are called like it (worker_names.py)
--       6 what does not occur in the rest of them
-- Reply list of {worker, JSON it tells about itself, ms until it counts as dead, 0 if it does} of all
--       others of that name; the caller has it if none of these is alive
--include _crawl.lua
--include _elapsed.lua
--include _enrolling.lua
local namesakes, is_taken = {}, false
for _, other in ipairs(redis.call('HKEYS', ABOUT)) do
  local is_called_so = other:sub(1, #ARGV[5]) == ARGV[5] and not other:find(ARGV[6], #ARGV[5] + 1, true)
  if is_called_so and other ~= ARGV[2] then
    local left_ms = math.max(0, tonumber(redis.call('ZSCORE', WORKERS, other) or NOW) - NOW)
    is_taken = is_taken or left_ms > 0
    namesakes[#namesakes + 1] = {other, redis.call('HGET', ABOUT, other), left_ms}
  end
end
if not is_taken then enrol(ARGV[2], tonumber(ARGV[3]), ARGV[4]) end
return namesakes
