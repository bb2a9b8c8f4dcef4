// The same crawl with crawlee for Node and Cheerio, in memory, as its documentation would write it.
//
//     node with_crawlee.mjs SEED CONCURRENCY FILE
//
// It is copied to where its packages are and imports nothing of this project.
import { writeFileSync } from 'node:fs';
import { CheerioCrawler, Configuration, Dataset } from '@crawlee/cheerio';

const [seed, concurrency, path] = process.argv.slice(2);
Configuration.getGlobalConfig().set('persistStorage', false);
Configuration.getGlobalConfig().set('logLevel', 'WARNING');

const crawler = new CheerioCrawler({
  minConcurrency: Number(concurrency),
  maxConcurrency: Number(concurrency),
  async requestHandler({ request, response, $, enqueueLinks, pushData }) {
    const links = $('a').length;
    await pushData({ url: request.url, status: response.statusCode, title: $('title').text(), links });
    await enqueueLinks();
  },
});
await crawler.run([seed]);
const { items } = await (await Dataset.open()).getData();
const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
const rows = items.map((item) => [item.url, item.status, item.title, item.links].map(quoted).join(','));
writeFileSync(path, ['url,status,title,links', ...rows, ''].join('\n'));
