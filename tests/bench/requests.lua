-- The requests of the benchmark, for wrk. After `--` come pairs: kind=send key=sk_… ids=FILE from=0 count=64 seen=PREFIX.
-- A file of ids has one id a line, all equally long; each thread takes its own share of the lines from..from+count.
-- With `seen`, the ids that the answers name are written to PREFIX.1, PREFIX.2 …

local threads = {}
local owned, place, state = {}, 0, {}
local THREADS = 2
local CONTENT = "Thank you for waiting. Your parcel left our warehouse this morning and arrives on Tuesday, "
  .. "between noon and two o'clock."
local METADATA = '{"order":"2026-000123456","source":"web shop","language":"en",'
  .. '"page":"https://shop.example/orders/2026-000123456"}'

function setup(thread)
  table.insert(threads, thread)
  thread:set("number", #threads)
end

local function options(args)
  local given = {}
  for _, arg in ipairs(args) do
    local name, value = arg:match("^(%w+)=(.*)$")
    if name then given[name] = value end
  end
  return given
end

local function read_ids(given)
  local file = assert(io.open(given.ids))
  local width = #file:read("*l") + 1
  local from, count = tonumber(given.from), tonumber(given.count)
  file:seek("set", from * width)
  for line = 1, count do
    local id = file:read("*l")
    if not id then break end
    if count < THREADS or line % THREADS == number % THREADS then table.insert(owned, id) end
  end
  file:close()
end

local head
local function written(method, path, body)
  local text = method .. " " .. path .. " HTTP/1.1\r\n" .. head
  if not body then return text .. "\r\n" end
  return text .. "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\n\r\n" .. body
end

local function any() return owned[math.random(#owned)] end

local function following()
  place = place % #owned + 1
  return owned[place]
end

local function conversation(id) return "/v1/conversations/" .. id end

local function message(id, sender)
  return written("POST", conversation(id) .. "/messages", '{"content":"' .. CONTENT .. '","sender_type":"' .. sender .. '"}')
end

-- What each conversation has now is known here, so that every PATCH changes something.
local NEXT = { normal = "high", high = "low", low = "normal", active = "pending", pending = "active" }
local function change(id)
  local has = state[id] or { status = "active", priority = "normal" }
  state[id] = has
  local field = math.random(2) == 1 and "status" or "priority"
  has[field] = NEXT[has[field]]
  return written("PATCH", conversation(id), '{"' .. field .. '":"' .. has[field] .. '"}')
end

local function create(customer)
  return written("POST", "/v1/conversations",
    '{"customer_id":"' .. customer .. '","initial_message":"Hello, where is my parcel?","metadata":' .. METADATA .. '}')
end

-- A vocabulary in which few words are common and most are rare: words of five syllables stand in 15 of 100,000 documents.
local SYLLABLES = { "ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu", "na", "pe", "qui", "ro", "su", "ta", "ve",
  "wi", "xo", "zu" }
local VOCABULARY = 200000
local FIVE_SYLLABLES = (#SYLLABLES) ^ 4

local function word(rank)
  local text = ""
  repeat
    text = SYLLABLES[rank % #SYLLABLES + 1] .. text
    rank = math.floor(rank / #SYLLABLES)
  until rank == 0
  return text
end

-- About 1,000 bytes.
local function content()
  local lines = {}
  for line = 1, 10 do
    local words = {}
    for place = 1, 12 do words[place] = word(math.floor(VOCABULARY * math.random() ^ 4)) end
    lines[line] = table.concat(words, " ")
  end
  return table.concat(lines, "\\n")
end

local function document(id) return "/api/v1/documents/" .. id end
local function documents(query) return written("GET", "/api/v1/documents" .. query) end

local contents = {}
-- Always the same text to a document, but for its end.
local function update()
  place = place + 1
  local chosen = math.random(#owned)
  local base = chosen % 64
  contents[base] = contents[base] or content()
  return written("PUT", document(owned[chosen]), '{"content":"' .. contents[base] .. "\\n" .. place .. '"}')
end

local kinds = {
  send = function() return message(any(), "customer") end,
  -- The sender is an agent: a customer's message would make a pending conversation active.
  mixed = function() return math.random(10) <= 6 and message(any(), "agent") or change(any()) end,
  get = function() return written("GET", conversation(any())) end,
  get_each = function() return written("GET", conversation(following())) end,
  list_status = function() return written("GET", "/v1/conversations?status=active") end,
  list_customer = function() return written("GET", "/v1/conversations?customer_id=" .. any()) end,
  figures = function()
    local year_ago = os.date("!%Y-%m-%dT00:00:00Z", os.time() - 365 * 86400)
    return written("GET", "/v1/analytics/conversations?interval=day&from=" .. year_ago)
  end,
  create = function() return create(any()) end,
  create_customer = function()
    place = place + 1
    return written("POST", "/v1/customers",
      string.format('{"name":"Customer %d.%07d of the benchmark"}', number, place))
  end,
  document_create = function()
    place = place + 1
    return written("POST", "/api/v1/documents", string.format(
      '{"title":"Report %d.%07d of the benchmark","content":"%s","metadata":%s}', number, place, content(), METADATA))
  end,
  document_update = update,
  document_get = function() return written("GET", document(any())) end,
  document_get_each = function() return written("GET", document(following())) end,
  document_list = function() return documents("") end,
  search_rare = function() return documents("?q=" .. word(math.random(FIVE_SYLLABLES, VOCABULARY - 1))) end,
  search_common = function() return documents("?q=%22" .. word(0) .. "%22") end,
}

local function keep_what_is_seen(prefix)
  local file = assert(io.open(prefix .. "." .. number, "a"))
  function response(status, _, body)
    if status ~= 201 then return end
    local id = body:match('"conversation_id":"([^"]+)"') or body:match('"customer_id":"([^"]+)"')
      or body:match('"id":"(doc_[^"]+)"')
    if id then file:write(id, "\n") end
  end
end

function init(args)
  local given = options(args)
  head = "Host: bench\r\nAuthorization: Bearer " .. given.key .. "\r\n"
  math.randomseed(tonumber(given.seed or "1") * THREADS + number)
  if given.ids then read_ids(given) end
  if given.seen then keep_what_is_seen(given.seen) end
  request = assert(kinds[given.kind], "no such kind of request")
end

function done(summary, latency)
  local e = summary.errors
  io.write(string.format(
    '\nRESULT {"requests":%d,"seconds":%f,"bytes":%d,"refused":%d,"broken":%d,"p50_ms":%f,"p99_ms":%f}\n',
    summary.requests, summary.duration / 1e6, summary.bytes, e.status,
    e.connect + e.read + e.write + e.timeout, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
