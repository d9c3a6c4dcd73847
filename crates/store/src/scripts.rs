//! Redis Lua scripts: atomic updates by the server's clock.
//!
//! A value of another type under one of our keys is deleted, and the answer says so; the same goes
//! for a value that is not a number. Each key has a TTL, so that an unused namespace leaves nothing
//! behind.

use std::sync::LazyLock;

/// Prelude of each script: the time in milliseconds, and a check of the keys' types.
const PRELUDE: &str = r"
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local mended = 0
local function is(key, kind)
  local seen = redis.call('TYPE', key).ok
  if seen ~= 'none' and seen ~= kind then redis.call('DEL', key); mended = mended + 1 end
end
local function number(text) return tonumber(text or '') or 0 end
local function int(value) return string.format('%.0f', value) end
";

/// Reads and encodes a record of the board: its remaining time (-1 for closed, -2 for none), its
/// streak, its version.
const RECORD: &str = r"
local function record(key)
  is(key, 'hash')
  local r = redis.call('HMGET', key, 'until', 'streak', 'version', 'owner', 'lapses')
  local version = tonumber(r[3] or '')
  if not version then
    if redis.call('DEL', key) == 1 then mended = mended + 1 end
    return { open = 0, streak = 0, version = 0, owner = '', lapses = 0, none = true }
  end
  return { open = number(r[1]), streak = number(r[2]), version = version, owner = r[4] or '',
           lapses = number(r[5]) }
end
local function told(r)
  local left = -1
  if r.none then left = -2 elseif r.open > 0 then left = math.max(0, r.open - now) end
  return { int(left), int(r.streak), int(r.version) }
end
";

/// `KEYS`: a worker's record, the board's version. `ARGV`: who tells; for how long it is open in
/// milliseconds, -1 for closed; the streak; the life of a record. Answers the record that stands, and
/// how much was mended.
const REPORT: &str = r"
local r = record(KEYS[1])
local me, open_for, streak = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stands
if open_for >= 0 then
  -- Whoever opened it first said for how long, and whoever tries it says what comes next.
  local tried = r.owner ~= '' and r.owner ~= me and r.lapses > now
  stands = r.open > 0 and (r.open > now or tried)
else
  stands = r.none or r.open == 0
end
if not stands then
  is(KEYS[2], 'string')
  local micros = t[1] * 1000000 + t[2]
  r.version = math.max(number(redis.call('GET', KEYS[2])) + 1, micros)
  r.streak = streak
  r.open = 0
  if open_for >= 0 then r.open = now + math.max(open_for, 1) end
  r.none = nil
  redis.call('HSET', KEYS[1], 'until', int(r.open), 'streak', int(streak), 'version', int(r.version),
             'owner', '', 'lapses', '0')
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
  redis.call('SET', KEYS[2], int(r.version), 'PX', ARGV[4])
end
local answer = told(r)
answer[4] = int(mended)
return answer
";

/// `KEYS`: records. Answers three figures for each, and then how much was mended.
const READ: &str = r"
local answer = {}
for _, key in ipairs(KEYS) do
  for _, figure in ipairs(told(record(key))) do answer[#answer + 1] = figure end
end
answer[#answer + 1] = int(mended)
return answer
";

/// `KEYS`: a worker's record. `ARGV`: who asks, for how long it may try, the life of a record, and whether
/// it asks for more time. Answers 1 to whoever may, and how much was mended.
const CLAIM: &str = r"
local r = record(KEYS[1])
local free = r.none or (r.open > 0 and r.open <= now and r.lapses <= now)
if ARGV[4] == 'again' then free = r.owner == ARGV[1] and r.lapses > now end
if not free then return { '0', int(mended) } end
if r.none then
  -- It was wiped: what stands here is as good as what was lost.
  redis.call('HSET', KEYS[1], 'until', int(now), 'streak', '1', 'version', int(t[1] * 1000000 + t[2]))
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'lapses', int(now + tonumber(ARGV[2])))
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return { '1', int(mended) }
";

/// `KEYS`: the shares. `ARGV`: who tells, what, for how long that holds, the most who are heard.
/// Answers what the others told, and then how much was mended.
const EXCHANGE: &str = r"
is(KEYS[1], 'hash')
local me, life, most = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[4])
redis.call('HSET', KEYS[1], me, int(now + life) .. '|' .. ARGV[2])
redis.call('PEXPIRE', KEYS[1], int(life * 4))
local all, answer = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #all, 2 do
  local id, value = all[i], all[i + 1]
  local bar = string.find(value, '|', 1, true)
  local holds = bar and number(string.sub(value, 1, bar - 1)) or 0
  if holds <= now then
    redis.call('HDEL', KEYS[1], id)
    if holds == 0 then mended = mended + 1 end
  elseif id ~= me and #answer < most then
    answer[#answer + 1] = string.sub(value, bar + 1)
  end
end
answer[#answer + 1] = int(mended)
return answer
";

/// `KEYS`: buckets, and the number of the gateway's last debit. `ARGV`: for each bucket its limit a minute and what
/// was spent since the last time, in thousandths; the minutes' worth that may be missing; this debit's number; and for
/// how long that is remembered. A bucket lives until it is full. Answers what is missing from each, in thousandths,
/// and then how much was mended. A debit that was carried out before, or one older than that, only asks.
const DEBIT: &str = r"
local answer, last = {}, KEYS[#KEYS]
is(last, 'string')
local is_new = number(redis.call('GET', last)) < tonumber(ARGV[#ARGV - 1])
if is_new then redis.call('SET', last, ARGV[#ARGV - 1], 'PX', ARGV[#ARGV]) end
for i = 1, #KEYS - 1 do
  local key = KEYS[i]
  is(key, 'hash')
  local limit, spent = tonumber(ARGV[2 * i - 1]) * 1000, tonumber(ARGV[2 * i])
  if not is_new then spent = 0 end
  local r = redis.call('HMGET', key, 'missing', 'at')
  local flown = math.max(0, now - number(r[2])) * limit / 60000
  local missing = math.max(0, number(r[1]) - flown) + spent
  missing = math.min(math.max(missing, 0), tonumber(ARGV[#ARGV - 2]) * limit)
  redis.call('HSET', key, 'missing', int(missing), 'at', int(now))
  redis.call('PEXPIRE', key, int(180000 + missing / limit * 60000))
  answer[i] = int(missing)
end
answer[#answer + 1] = int(mended)
return answer
";

/// `KEYS`: the revocations. `ARGV`: how many fit; then digests, each with the milliseconds since 1970 until which it is
/// told. Answers how many found no room, and then how much was mended.
const REVOKE: &str = r"
is(KEYS[1], 'hash')
local all, live, last = redis.call('HGETALL', KEYS[1]), 0, now
for i = 1, #all, 2 do
  local holds = number(all[i + 1])
  if all[i] == 'version' then
  elseif holds <= now then redis.call('HDEL', KEYS[1], all[i])
  else live = live + 1; last = math.max(last, holds) end
end
local refused, changed = 0, false
for i = 2, #ARGV, 2 do
  local known, holds = number(redis.call('HGET', KEYS[1], ARGV[i])), tonumber(ARGV[i + 1])
  if known == 0 and tonumber(ARGV[1]) <= live then
    refused = refused + 1
  elseif known < holds then
    if known == 0 then live = live + 1 end
    redis.call('HSET', KEYS[1], ARGV[i], int(holds))
    last, changed = math.max(last, holds), true
  end
end
if changed then
  local version = number(redis.call('HGET', KEYS[1], 'version'))
  redis.call('HSET', KEYS[1], 'version', int(math.max(version + 1, t[1] * 1000000 + t[2])))
  redis.call('PEXPIREAT', KEYS[1], int(last))
end
return { int(refused), int(mended) }
";

/// `KEYS`: the revocations. `ARGV`: the version that was read last; how many are read. Answers the version; where it is
/// another one, digests with their ends behind it; and then how much was mended.
const REVOKED: &str = r"
is(KEYS[1], 'hash')
local version = int(number(redis.call('HGET', KEYS[1], 'version')))
local answer = { version }
if version ~= ARGV[1] then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    if #answer > 2 * tonumber(ARGV[2]) then break end
    if all[i] ~= 'version' and number(all[i + 1]) > now then
      answer[#answer + 1] = all[i]
      answer[#answer + 1] = all[i + 1]
    end
  end
end
answer[#answer + 1] = int(mended)
return answer
";

/// A script and the name that Redis knows it by.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    name: String,
}

impl Script {
    fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let name = redis::Script::new(&text).get_hash().to_owned();
        Self { text, name }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

pub(crate) static BOARD_REPORT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, RECORD, REPORT]));
pub(crate) static BOARD_READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, RECORD, READ]));
pub(crate) static BOARD_CLAIM: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, RECORD, CLAIM]));
pub(crate) static SHARES_EXCHANGE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, EXCHANGE]));
pub(crate) static BUDGETS_DEBIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, DEBIT]));
pub(crate) static KEYS_REVOKE: LazyLock<Script> = LazyLock::new(|| Script::new(&[PRELUDE, REVOKE]));
pub(crate) static KEYS_REVOKED: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[PRELUDE, REVOKED]));
