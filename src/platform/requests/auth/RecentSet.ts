/** Maximum number of texts in each of the two generations (see `RecentSet`). */
const generation = 8_192

/** A bounded set of texts. When the young generation is full, it becomes the old one, and the previous old one is dropped. */
export class RecentSet {
  private young = new Set<string>()
  private old = new Set<string>()

  has(text: string): boolean {
    return this.young.has(text) || this.old.has(text)
  }

  add(text: string): void {
    if (this.young.has(text)) return
    if (this.young.size === generation) {
      this.old = this.young
      this.young = new Set()
    }
    this.young.add(text)
  }
}
