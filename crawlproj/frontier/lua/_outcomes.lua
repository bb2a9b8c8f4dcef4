-- Included after _dead_letters.lua where URLs end: what became of each, where the crawl keeps it
-- (FRONTIER_OUTCOMES). Small hashes, which Redis packs: about 20 bytes a URL (docs/memory.md).
--
-- OUTCOMES .. bucket   hash, the rest of a URL's number (4 bytes) -> msgpack of seconds since the crawl
--                      began, HTTP status or 0, number of the worker and, if filtered, of the reason
-- OUTCOMES .. 'names'  hash, worker or reason -> its number
-- META outcomes is how many buckets there are.
local BUCKETS = tonumber(CRAWL[19] or 0) or 0
local name_numbers, began_ms = {}, nil

local function number_of(name)
  if not name_numbers[name] then
    local key = OUTCOMES .. 'names'
    local number = tonumber(redis.call('HGET', key, name))
    if not number then
      number = redis.call('HLEN', key)
      redis.call('HSET', key, name, number)
    end
    name_numbers[name] = number
  end
  return name_numbers[name]
end

local function note_outcome(name, entry, worker, status, reason)
  if BUCKETS == 0 then return end
  began_ms = began_ms or tonumber(redis.call('HGET', META, 'started_ms')) or 0
  local url = tonumber(dead_letter_number(name, entry))
  local rest = struct.pack('>I4', math.floor(url / BUCKETS) % 2 ^ 32)
  local seconds = math.max(0, math.floor((NOW - began_ms) / 1000))
  local by = number_of(worker:match('^(.+)~') or worker)
  local what = reason and cmsgpack.pack(seconds, status, by, number_of(reason))
               or cmsgpack.pack(seconds, status, by)
  redis.call('HSET', OUTCOMES .. ('%.0f'):format(url % BUCKETS), rest, what)
end
