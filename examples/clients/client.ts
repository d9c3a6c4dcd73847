// A streamed answer with OpenAI's client: npm install openai.
import OpenAI from "openai";

const client = new OpenAI({
  baseURL: (process.env.OVERDRAFT_URL ?? "http://127.0.0.1:8080") + "/v1",
  apiKey: process.env.OVERDRAFT_KEY ?? "unused", // one of `keys`, where the gateway has some
});

const stream = await client.chat.completions.create({
  model: process.env.OVERDRAFT_MODEL ?? "overdraft-target",
  messages: [{ role: "user", content: "What is a KV cache?" }],
  stream: true,
  max_tokens: 64,
});
for await (const chunk of stream) {
  process.stdout.write(chunk.choices[0]?.delta?.content ?? "");
}
process.stdout.write("\n");
