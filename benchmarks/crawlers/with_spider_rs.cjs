// The same crawl with spider-rs, from Node: Rust fetches and reads links, each page is one callback.
//
//     node with_spider_rs.cjs SEED CONCURRENCY FILE
//
// It is copied to where its packages are and imports nothing of this project. It has no setting
// for the number of connections: it takes as many as it likes.
const { writeFileSync } = require('node:fs');
const { Website, pageTitle } = require('@spider-rs/spider-rs');

const [seed, , path] = process.argv.slice(2);
const quoted = (value) => `"${String(value).replaceAll('"', '""')}"`;
const rows = ['url,status,title,links'];

function add(error, page) {
  if (error) return;
  const links = page.links ? page.links.length : 0;
  rows.push([page.url, page.statusCode, pageTitle(page), links].map(quoted).join(','));
}

const website = new Website(seed)
  .withRespectRobotsTxt(false)
  .withReturnPageLinks(true)
  .build();
website.crawl(add).then(() => {
  writeFileSync(path, [...rows, ''].join('\n'));
  process.exit(0); // Its threads outlive the crawl.
});
